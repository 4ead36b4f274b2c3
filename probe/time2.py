import sys, time, itertools, warnings
from pathlib import Path
import torch
from loopfuse import kernels
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Tuning
def load(path, **kw):
    text=Path(path).read_text()
    return next(iter(kernels.load_all(Source(Path(path).name, text)).values())).with_options(tuning=Tuning(**kw))
def ms(f, n=20):
    for _ in range(3): f()
    ev=[(torch.cuda.Event(enable_timing=True),torch.cuda.Event(enable_timing=True)) for _ in range(n)]
    torch.cuda.synchronize()
    for a,b in ev: a.record(); f(); b.record()
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a,b in ev)[n//2]
def copy_ms(nbytes):
    x=torch.empty(nbytes//4,device='cuda',dtype=torch.float32).normal_(); y=torch.empty_like(x)
    return ms(lambda: y.copy_(x))
t0=time.time(); budget=1e9
H=W=8192
def rnd(*s, dtype=torch.float32): return torch.rand(*s,device='cuda',dtype=dtype)
def case(name, path, make, moved, variants, sweeps=0, check=None):
    c=copy_ms(moved)
    for kw in variants:
        if time.time()-t0>budget: print('out of time'); return
        try:
            k=load(path,**kw)
            args=make()
            s=time.time(); k(*args); torch.cuda.synchronize(); comp=time.time()-s
            ok=''
            if check: ok=check(k)
            m=ms(lambda: k(*args))
            print(f'{name:10s} {str(kw):60s} {m:.4f} ms copy {c:.4f} share {c/m:.3f}' + (f' sweeps/copy {sweeps*c/m:.2f}' if sweeps else '') + f' compile {comp:.1f}s {ok}', flush=True)
        except Exception as e:
            print(name, kw, type(e).__name__, str(e)[:300], flush=True)
def jref(a, n, f):
    a=a.double().clone()
    for _ in range(n):
        a[f.r:-f.r,f.r:-f.r]=f(a)
    return a
class J5:
    r=1
    def __call__(s,a): return 0.2*(a[1:-1,1:-1]+a[1:-1,:-2]+a[1:-1,2:]+a[2:,1:-1]+a[:-2,1:-1])
def jcheck(h,w,n=16,dtype=torch.float32):
    def go(k):
        a=rnd(h,w,dtype=dtype); b=a.clone(); want=jref(a,n,J5())
        k(a,b,n); torch.cuda.synchronize()
        return f'err {float((a.double()-want).abs().max()):.1e}'
    return go
def pcheck(h,w,n=8):
    def go(k):
        a=rnd(h,w); b=a.clone(); want=jref(a,2*n,J5()); k(a,b,n); torch.cuda.synchronize()
        return f'err {float((a.double()-want).abs().max()):.1e}'
    return go
two=lambda:(rnd(H,W),torch.full((H,W),float('nan'),device='cuda'))
name,_,spec=sys.argv[1].partition(':')
kw={a.split('=')[0]:int(a.split('=')[1]) for a in spec.split(',') if a}
C=dict(one=('probe/one.lf',two,H*W*4),blur=('examples/blur.lf',two,H*W*4),
unsharp=('examples/unsharp.lf',lambda:(rnd(H,W),0.5),H*W*4),harris=('examples/harris.lf',two,H*W*4),
jswap=('probe/jswap.lf',lambda:(rnd(H,W),rnd(H,W),16),H*W*4,16,jcheck(1000,1003)),
jpoly=('probe/jpoly.lf',lambda:(rnd(H,W),rnd(H,W),8),H*W*4,16,pcheck(1000,1003)),
hdiff=('examples/horizontal_diffusion.lf',lambda:(rnd(128,512,512),rnd(128,512,512),rnd(128,512,512)),3*128*512*512*2),
j9=('probe/j9.lf',lambda:(rnd(H,W),rnd(H,W),16),H*W*4,16),
star2=('probe/star2.lf',lambda:(rnd(H,W),rnd(H,W),16),H*W*4,16),
jswap64=('probe/jswap64.lf',lambda:(rnd(H,W,dtype=torch.float64),rnd(H,W,dtype=torch.float64),16),H*W*8,16))
p,make,moved,*rest=C[name]
print(sys.argv[1],'start',flush=True)
case(name,p,make,moved,[kw],*rest)
