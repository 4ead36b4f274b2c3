"""Notebooks for the tests: written, executed, made a page, and looked at in a headless Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

CELLS = (
    """
import numpy as np
import loopfuse
from loopfuse.base import progress

progress.COMPILING = 0.5  # whatever machine this is, jacobi takes longer

def lerp(a, b, t):
    return a + t * (b - a)
""",
    """
@loopfuse.kernel(target="cpu")
def soften(img, amount):
    H, W = img.shape
    rows = np.empty_like(img)
    out = np.empty_like(img)
    for y in range(H):
        for x in range(W):
            rows[y, x] = 0.5 * (img[y, max(x - 1, 0)] + img[y, min(x + 1, W - 1)])
    for y in range(H):
        for x in range(W):
            out[y, x] = lerp(img[y, x], rows[y, x], amount)
    return out

img = np.random.default_rng(0).random((48, 64), dtype=np.float32)
soften(img, 0.8).shape
""",
    "soften.explain(img, 0.8)",
    'loopfuse.load("example:jacobi", target="cpu").explain()',
    'loopfuse.load("example:jacobi", target="cpu").dependences()',
    "soften.verify()",
    'loopfuse.load("example:unsharp", target="cpu", tune_budget=1).tune(img, 0.8)',
    "soften.compile(target='cpu')",
    "soften",
    """
import pickle
again = pickle.loads(pickle.dumps(soften))
again is not soften and bool((again(img, 0.8) == soften(img, 0.8)).all())
""",
)
# The marker that a screenshot is cut at: what is above is code, what is below is ours.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def browser() -> str | None:
    """A Chromium, or None."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def execute(folder: Path) -> Any:
    """The notebook of CELLS with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS]
    environment = {
        **os.environ,
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "LOOPFUSE_CACHE_DIR": str(folder / "cache"),
    }
    client = NotebookClient(
        book, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=environment)
    return book


def export(book: Any, theme: str) -> str:
    """The notebook as nbconvert's page, which has JupyterLab's style sheets; theme `light` or
    `dark`. What it would load from the network is left out."""
    from nbconvert import HTMLExporter

    text, _ = HTMLExporter(theme=theme).from_notebook_node(book)
    return re.sub(r"<script[^>]*\bsrc=[^>]*>\s*</script>", "", text)


def photograph(page: Path, *, dark_system: bool, width: int, height: int = 2400) -> Any:
    """A page's picture as an array: in a window `width` pixels wide, on a system that prefers dark
    pages or light ones."""
    from PIL import Image

    found = browser()
    assert found is not None
    picture = page.with_suffix(f".{'dark' if dark_system else 'light'}.{width}.png")
    # A window is at least 500 pixels wide: a narrower page stands in a frame of that width.
    shown = page
    if width < 500:
        shown = page.with_suffix(".frame.html")
        shown.write_text(
            f'<body style="margin:0"><iframe src="{page.name}" style="border:0;width:{width}px;'
            f'height:{height}px"></iframe>'
        )
    scheme = 0 if dark_system else 1
    subprocess.run(
        [found, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--disable-dev-shm-usage", f"--user-data-dir={page.parent / 'profile'}",
         f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={max(width, 500)},{height}",
         "--virtual-time-budget=3000", f"--screenshot={picture}", shown.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return np.asarray(Image.open(picture).convert("RGB"))[:, :width]


LOOK = """
<script>
function channels(text) {
  const mixed = text.match(/color\\(srgb ([\\d.]+) ([\\d.]+) ([\\d.]+)(?: \\/ ([\\d.]+))?\\)/);
  if (mixed) return [255 * mixed[1], 255 * mixed[2], 255 * mixed[3], mixed[4] === undefined ? 1 : +mixed[4]];
  const plain = text.match(/[\\d.]+/g).map(Number);
  return plain.length === 3 ? [...plain, 1] : plain;
}
function over(front, back) {
  return [0, 1, 2].map(k => front[3] * front[k] + (1 - front[3]) * back[k]).concat(1);
}
function luminance(c) {
  const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(
    v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(element) {
  const chain = [];
  for (let e = element; e; e = e.parentElement) chain.unshift(getComputedStyle(e));
  const root = getComputedStyle(document.documentElement).colorScheme;
  let back = [255, 255, 255, 1], opacity = 1;
  for (const style of chain) { back = over(channels(style.backgroundColor), back); opacity *= style.opacity; }
  const front = channels(getComputedStyle(element).color);
  front[3] *= opacity;
  const [a, b] = [luminance(over(front, back)), luminance(back)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
window.addEventListener("load", () => {
  const seen = [];
  for (const root of document.querySelectorAll(".loopfuse"))
    for (const e of root.querySelectorAll("h2,h3,p,caption,th,td,li,code,span")) {
      const style = getComputedStyle(e), box = e.getBoundingClientRect();
      seen.push({tag: e.localName, kind: e.className, text: e.textContent.slice(0, 40),
        align: style.textAlign, size: parseFloat(style.fontSize), contrast: contrast(e),
        left: box.left, right: box.right, width: box.width, height: box.height,
        line: parseFloat(style.lineHeight)});
    }
  const out = document.createElement("script");
  out.type = "application/json"; out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
});
</script>
"""


def look(page: Path, *, dark_system: bool, width: int) -> list[dict[str, Any]]:
    """What stands in our parts of a page as a browser lays it out: text, alignment, sizes in
    pixels, and the contrast of its colours."""
    found = browser()
    assert found is not None
    measured = page.with_suffix(".look.html")
    measured.write_text(page.read_text() + LOOK)
    if width < 500:
        frame = page.with_suffix(".look.frame.html")
        frame.write_text(
            f'<body style="margin:0"><iframe src="{measured.name}" style="border:0;width:{width}px;'
            'height:9000px"></iframe><script>addEventListener("load", () => document.body.append('
            'frames[0].document.getElementById("seen")))</script>'
        )
        measured = frame
    done = subprocess.run(
        [found, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--allow-file-access-from-files", f"--user-data-dir={page.parent / 'profile'}",
         f"--blink-settings=preferredColorScheme={0 if dark_system else 1}",
         f"--window-size={max(width, 500)},2000", "--virtual-time-budget=3000", "--dump-dom",
         measured.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    text = done.stdout.decode()
    data = re.search(r'<script type="application/json" id="seen">(.*?)</script>', text, re.DOTALL)
    assert data is not None, text[-2000:]
    return json.loads(data[1])
