"""The CPU threads' native code, as LLVM IR: what a worker does all its life, and how a launch is run.

A launch stands in a *slot*, one of a few, so that several callers may launch at once. Its chunks lie in
*ranges*, one for each thread that takes part, and a thread takes chunks of its own range first, always
the same ones when launches come again, then of the others': by counting down the range's `left`. The
caller takes chunks as all others do, and waits only for those that somebody else is inside of. A worker
that the system does not run has nothing, and nobody waits for it.

Why a late worker harms nothing: what a launch is (its fields) is read after a chunk of it was taken,
and a slot's next launch is written only when every chunk taken of the last one is done. Counting down
what has no chunks left gives no chunk, and the next launch stores anew.

A worker without work spins for some microseconds, then parks (a futex on `generation`); so does a
caller that waits for others (a futex on `done`). Nothing here knows Python.

Where a worker is woken matters as much as when: Linux may put it behind the caller on the caller's own processor, where it
waits for milliseconds while another one idles (in a virtual machine, whose idle processors it takes for busy ones). So a worker
that has a processor of its own (`HOMES`) is tied to it while it is parked, and who wakes leaves those out that parked where the
caller runs: there is one worker more than a launch has helpers. While it is awake it may be moved. A caller is tied to where it is
while it is parked.
"""

from __future__ import annotations

from dataclasses import dataclass

LINE = 128
"""Bytes between what different threads write: two cache lines, which come together."""

SLOTS = 8
"""Launches that may have helpers at one time; another one is run by its caller alone."""

MOST_PROCESSORS = 8 * LINE
"""Processors that a set of them has room for, and workers that have one of their own."""

# The state, in bytes: a line each, then the processors of the workers (each a number more, 0: none), and which of them are
# parked, then the slots.
GENERATION, SLEEPERS, RANGES, NUMBERS, HOMES = (LINE * k for k in range(5))
PARKED = HOMES + 4 * MOST_PROCESSORS
FIRST_SLOT = PARKED + 4 * MOST_PROCESSORS
SPIN, WAIT = RANGES + 8, RANGES + 16  # nanoseconds of a worker, of a caller, before they park
CALLED_ON = GENERATION + 4  # the processor of the caller that was the last to launch
# A slot, in bytes: a line each, then a line for each range. `WAITING` lies beside `DONE`.
BUSY, SEATS, DONE, FIELDS, FIRST_RANGE = (LINE * k for k in range(5))
WAITING = DONE + 4
# The words of a launch: the adapter's address, its argument block's, iterations of the grid, iterations of
# a chunk, chunks, threads at most. A slot's fields are the same words.
ADAPTER, BLOCK, GRID, STEP, CHUNKS, THREADS = range(6)
FIELDS_COUNT = 6
# The words of a range: chunks left, chunks at the start, the first chunk's number.
LEFT, SIZE, BASE = range(3)


def state_bytes(ranges: int) -> int:
    """The bytes of a state whose launches have at most so many threads."""
    return FIRST_SLOT + SLOTS * _slot_bytes(ranges)


def _slot_bytes(ranges: int) -> int:
    return FIRST_RANGE + LINE * ranges


@dataclass(frozen=True, slots=True)
class Processor:
    """What differs between instruction sets: the numbers of the system calls `futex`, `sched_yield`,
    `sched_setaffinity` and `sched_getaffinity`, and the IR of a pause in a loop that spins."""

    futex: int
    give_way: int
    set_affinity: int
    get_affinity: int
    pause: str
    declared: str


PROCESSORS = {
    "x86_64": Processor(
        202, 24, 203, 204, "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"
    ),
    "aarch64": Processor(
        98, 124, 122, 123, "call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"
    ),
}


CLOCK = """declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {
  %time = alloca [2 x i64], align 8
  %failed = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}
"""
"""The IR of `now()`: nanoseconds."""


def pool_text(processor: Processor) -> str:
    """The IR: `worker(state)`, which never returns and fits `pthread_create`, and
    `launch(state, words)`, which returns when all iterations have run.

    word at @field(slot, k): what the launch is; at @range(slot, p, k): a range
    """
    return f"""
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.ctpop.i64(i64)
{processor.declared}

{CLOCK}
define internal void @rest() {{
  {" ".join([chr(10) + "  " + processor.pause] * 8)}
  ret void
}}

define internal void @wait(ptr %word, i32 %seen) {{
  %done = call i64 (i64, ...) @syscall(i64 {processor.futex}, ptr %word, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  ret void
}}

define internal void @park(ptr %word, i32 %seen, i32 %bits) {{
  %done = call i64 (i64, ...) @syscall(i64 {processor.futex}, ptr %word, i32 137, i32 %seen, ptr null, ptr null, i32 %bits)
  ret void
}}

; The bit of a processor among those by which threads are woken.
define internal i32 @bit(i32 %processor) alwaysinline {{
  %place = and i32 %processor, 31
  %bit = shl i32 1, %place
  ret i32 %bit
}}

; Wakes some that parked elsewhere than on a processor; how many.
define internal i64 @wake_beside(ptr %word, i32 %count, i32 %processor) {{
  %bit = call i32 @bit(i32 %processor)
  %others = xor i32 %bit, -1
  %woken = call i64 (i64, ...) @syscall(i64 {processor.futex}, ptr %word, i32 138, i32 %count, ptr null, ptr null, i32 %others)
  ret i64 %woken
}}

; How many of a launch's helpers are asleep, the one on the caller's processor (-1: there is none) apart: it may be awake, and not run.
define internal i64 @missing(ptr %state, i64 %helpers, i64 %beside) alwaysinline {{
  %numbers.at = getelementptr i8, ptr %state, i64 {NUMBERS}
  %workers = load atomic i64, ptr %numbers.at monotonic, align 8
  %sleepers.at = getelementptr i8, ptr %state, i64 {SLEEPERS}
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = sext i32 %sleepers to i64
  %some.beside = icmp sge i64 %beside, 0
  %its.number = select i1 %some.beside, i64 %beside, i64 0
  %parked.at = call ptr @parked(ptr %state, i64 %its.number)
  %parked = load atomic i32, ptr %parked.at monotonic, align 4
  %its = select i1 %some.beside, i32 %parked, i32 0
  %its.sleep = sext i32 %its to i64
  %its.place = zext i1 %some.beside to i64
  %others = sub i64 %workers, %its.place
  %others.asleep = sub i64 %asleep, %its.sleep
  %awake = sub i64 %others, %others.asleep
  %missing = sub i64 %helpers, %awake
  %some = icmp sgt i64 %missing, 0
  %any = icmp sgt i64 %others.asleep, 0
  %both = and i1 %some, %any
  %found = select i1 %both, i64 %missing, i64 0
  ret i64 %found
}}

; Where a worker says that it is parked. (Those without a processor of their own share a place that nobody reads.)
define internal ptr @parked(ptr %state, i64 %number) alwaysinline {{
  %known = icmp ult i64 %number, {MOST_PROCESSORS}
  %place = select i1 %known, i64 %number, i64 {MOST_PROCESSORS - 1}
  %flags = getelementptr i8, ptr %state, i64 {PARKED}
  %parked = getelementptr i32, ptr %flags, i64 %place
  ret ptr %parked
}}

; A worker's own processor, a number more; 0: it has none.
define internal i32 @home(ptr %state, i64 %number) alwaysinline {{
entry:
  %known = icmp ult i64 %number, {MOST_PROCESSORS}
  br i1 %known, label %look, label %none
look:
  %homes = getelementptr i8, ptr %state, i64 {HOMES}
  %home.at = getelementptr i32, ptr %homes, i64 %number
  %home = load atomic i32, ptr %home.at monotonic, align 4
  ret i32 %home
none:
  ret i32 0
}}

; Ties the thread that calls to a processor; 0: it is.
define internal i64 @tie(i32 %processor) {{
entry:
  %set = alloca [{LINE // 8} x i64], align 16
  call void @clear(ptr %set)
  %wide = zext i32 %processor to i64
  %word = lshr i64 %wide, 6
  %known = icmp ult i64 %word, {LINE // 8}
  br i1 %known, label %move, label %never
move:
  %place = and i64 %wide, 63
  %bit = shl i64 1, %place
  %word.at = getelementptr i64, ptr %set, i64 %word
  store i64 %bit, ptr %word.at
  %failed = call i64 (i64, ...) @syscall(i64 {processor.set_affinity}, i64 0, i64 {LINE}, ptr %set)
  ret i64 %failed
never:
  ret i64 1
}}

define internal void @clear(ptr %set) {{
entry:
  br label %clear
clear:
  %k = phi i64 [ 0, %entry ], [ %k.next, %clear ]
  %word.at = getelementptr i64, ptr %set, i64 %k
  store i64 0, ptr %word.at
  %k.next = add i64 %k, 1
  %all = icmp eq i64 %k.next, {LINE // 8}
  br i1 %all, label %over, label %clear
over:
  ret void
}}

; A caller waits on the processor where it is: who wakes it would take it over to its own.
define internal void @wait_here(ptr %word, i32 %seen) {{
entry:
  %before = alloca [{LINE // 8} x i64], align 16
  %here = call i32 @sched_getcpu()
  %may = call i1 @may_run(ptr %before, i32 %here)
  br i1 %may, label %tie, label %free
free:
  call void @wait(ptr %word, i32 %seen)
  ret void
tie:
  %failed = call i64 @tie(i32 %here)
  call void @wait(ptr %word, i32 %seen)
  call void @be_free(ptr %before)
  ret void
}}

; Ties a worker to its own processor, where it may run there; true: it is, and `before` says where it might run.
define internal i1 @go_home(ptr %state, i64 %number, ptr %before) {{
entry:
  %home = call i32 @home(ptr %state, i64 %number)
  %none = icmp eq i32 %home, 0
  br i1 %none, label %stay, label %ask
ask:
  %own = sub i32 %home, 1
  %may = call i1 @may_run(ptr %before, i32 %own)
  br i1 %may, label %tie, label %stay
tie:
  %failed = call i64 @tie(i32 %own)
  %tied = icmp eq i64 %failed, 0
  ret i1 %tied
stay:
  ret i1 0
}}

; Asks where the thread may run; whether on a processor.
define internal i1 @may_run(ptr %set, i32 %processor) {{
entry:
  call void @clear(ptr %set)
  %bytes = call i64 (i64, ...) @syscall(i64 {processor.get_affinity}, i64 0, i64 {LINE}, ptr %set)
  %known = icmp sgt i64 %bytes, 0
  %wide = zext i32 %processor to i64
  %word = lshr i64 %wide, 6
  %inside = icmp ult i64 %word, {LINE // 8}
  %both = and i1 %known, %inside
  br i1 %both, label %look, label %no
look:
  %word.at = getelementptr i64, ptr %set, i64 %word
  %bits = load i64, ptr %word.at
  %place = and i64 %wide, 63
  %moved = lshr i64 %bits, %place
  %bit = trunc i64 %moved to i1
  ret i1 %bit
no:
  ret i1 0
}}

; Leaves a worker that was tied free to be moved, unless somebody else has said meanwhile where it may run.
define internal void @be_free(ptr %before) {{
entry:
  %set = alloca [{LINE // 8} x i64], align 16
  %here = call i32 @sched_getcpu()
  %may = call i1 @may_run(ptr %set, i32 %here)
  br label %count
count:
  %k = phi i64 [ 0, %entry ], [ %k.next, %count ]
  %found = phi i64 [ 0, %entry ], [ %found.next, %count ]
  %word.at = getelementptr i64, ptr %set, i64 %k
  %word = load i64, ptr %word.at
  %bits = call i64 @llvm.ctpop.i64(i64 %word)
  %found.next = add i64 %found, %bits
  %k.next = add i64 %k, 1
  %all = icmp eq i64 %k.next, {LINE // 8}
  br i1 %all, label %decide, label %count
decide:
  %one = icmp eq i64 %found.next, 1
  br i1 %one, label %free, label %over
free:
  %freed = call i64 (i64, ...) @syscall(i64 {processor.set_affinity}, i64 0, i64 {LINE}, ptr %before)
  br label %over
over:
  ret void
}}

; The worker whose own a processor is, -1 where there is none.
define internal i64 @worker_on(ptr %state, i32 %processor) {{
entry:
  %wanted = add i32 %processor, 1
  %numbers.at = getelementptr i8, ptr %state, i64 {NUMBERS}
  %workers = load atomic i64, ptr %numbers.at monotonic, align 8
  br label %look
look:
  %k = phi i64 [ 0, %entry ], [ %k.next, %other ]
  %more = icmp slt i64 %k, %workers
  br i1 %more, label %ask, label %none
ask:
  %home = call i32 @home(ptr %state, i64 %k)
  %same = icmp eq i32 %home, %wanted
  br i1 %same, label %found, label %other
other:
  %k.next = add i64 %k, 1
  br label %look
found:
  ret i64 %k
none:
  ret i64 -1
}}

define internal void @wake(ptr %word, i32 %count) {{
  %done = call i64 (i64, ...) @syscall(i64 {processor.futex}, ptr %word, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}}

define internal ptr @slot(ptr %state, i64 %number) alwaysinline {{
  %ranges.at = getelementptr i8, ptr %state, i64 {RANGES}
  %ranges = load i64, ptr %ranges.at
  %ranges.bytes = mul i64 %ranges, {LINE}
  %bytes = add i64 %ranges.bytes, {FIRST_RANGE}
  %before = mul i64 %bytes, %number
  %offset = add i64 %before, {FIRST_SLOT}
  %slot = getelementptr i8, ptr %state, i64 %offset
  ret ptr %slot
}}

define internal ptr @field(ptr %slot, i64 %word) alwaysinline {{
  %fields = getelementptr i8, ptr %slot, i64 {FIELDS}
  %field = getelementptr i64, ptr %fields, i64 %word
  ret ptr %field
}}

define internal ptr @range(ptr %slot, i64 %number) alwaysinline {{
  %lines = mul i64 %number, {LINE}
  %offset = add i64 %lines, {FIRST_RANGE}
  %range = getelementptr i8, ptr %slot, i64 %offset
  ret ptr %range
}}

; Takes and runs chunks, of range `home` first; how many.
define internal i32 @work(ptr %slot, i64 %home) {{
entry:
  %chunk = alloca [2 x i64], align 16
  %arguments = alloca ptr, align 8
  store ptr %chunk, ptr %arguments
  %end.at = getelementptr i64, ptr %chunk, i64 1
  %threads.at = call ptr @field(ptr %slot, i64 {THREADS})
  %threads = load atomic i64, ptr %threads.at monotonic, align 8
  %some = icmp sgt i64 %threads, 0
  br i1 %some, label %start, label %none
none:
  ret i32 0
start:
  %first = urem i64 %home, %threads
  br label %look
look:
  %p = phi i64 [ %first, %start ], [ %p.next, %over ]
  %looked = phi i64 [ 0, %start ], [ %looked.next, %over ]
  %count.look = phi i32 [ 0, %start ], [ %count, %over ]
  %range = call ptr @range(ptr %slot, i64 %p)
  br label %peek
peek:
  %count = phi i32 [ %count.look, %look ], [ %count.next, %run ]
  %peeked = load atomic i64, ptr %range monotonic, align 8
  %maybe = icmp sgt i64 %peeked, 0
  br i1 %maybe, label %take, label %over
take:
  %left = atomicrmw sub ptr %range, i64 1 seq_cst
  %taken = icmp sgt i64 %left, 0
  br i1 %taken, label %run, label %over
run:
  %size.at = getelementptr i64, ptr %range, i64 {SIZE}
  %size = load i64, ptr %size.at
  %base.at = getelementptr i64, ptr %range, i64 {BASE}
  %base = load i64, ptr %base.at
  %beyond = add i64 %base, %size
  %number = sub i64 %beyond, %left
  %step.at = call ptr @field(ptr %slot, i64 {STEP})
  %step = load i64, ptr %step.at
  %grid.at = call ptr @field(ptr %slot, i64 {GRID})
  %grid = load i64, ptr %grid.at
  %adapter.at = call ptr @field(ptr %slot, i64 {ADAPTER})
  %adapter = load ptr, ptr %adapter.at
  %block.at = call ptr @field(ptr %slot, i64 {BLOCK})
  %block = load ptr, ptr %block.at
  %begin = mul i64 %number, %step
  %whole = add i64 %begin, %step
  %short = icmp slt i64 %grid, %whole
  %end = select i1 %short, i64 %grid, i64 %whole
  store i64 %begin, ptr %chunk
  store i64 %end, ptr %end.at
  call void %adapter(ptr %arguments, ptr null, ptr null, ptr %block)
  %count.next = add i32 %count, 1
  br label %peek
over:
  %p.up = add i64 %p, 1
  %wraps = icmp uge i64 %p.up, %threads
  %p.next = select i1 %wraps, i64 0, i64 %p.up
  %looked.next = add i64 %looked, 1
  %all = icmp uge i64 %looked.next, %threads
  br i1 %all, label %end.look, label %look
end.look:
  ret i32 %count
}}

; Says that `count` chunks are done; the number that are done now.
define internal i32 @tell(ptr %slot, i32 %count) {{
entry:
  %done.at = getelementptr i8, ptr %slot, i64 {DONE}
  %waiting.at = getelementptr i8, ptr %slot, i64 {WAITING}
  %chunks.at = call ptr @field(ptr %slot, i64 {CHUNKS})
  %chunks = load i64, ptr %chunks.at
  %all = trunc i64 %chunks to i32
  %before = atomicrmw add ptr %done.at, i32 %count seq_cst
  %done = add i32 %before, %count
  %complete = icmp eq i32 %done, %all
  br i1 %complete, label %look, label %over
look:
  %waiting = load atomic i32, ptr %waiting.at seq_cst, align 4
  %somebody = icmp ne i32 %waiting, 0
  br i1 %somebody, label %wake, label %over
wake:
  call void @wake(ptr %done.at, i32 1)
  br label %over
over:
  ret i32 %done
}}

define ptr @worker(ptr %state) {{
entry:
  %numbers.at = getelementptr i8, ptr %state, i64 {NUMBERS}
  %number = atomicrmw add ptr %numbers.at, i64 1 seq_cst
  %behind = add i64 %number, 1
  %parked.at = call ptr @parked(ptr %state, i64 %number)
  %before = alloca [{LINE // 8} x i64], align 16
  %began = call i1 @go_home(ptr %state, i64 %number, ptr %before)
  br i1 %began, label %spread, label %begin
spread:
  call void @be_free(ptr %before)
  br label %begin
begin:
  %generation.at = getelementptr i8, ptr %state, i64 {GENERATION}
  %sleepers.at = getelementptr i8, ptr %state, i64 {SLEEPERS}
  %spin.at = getelementptr i8, ptr %state, i64 {SPIN}
  %called.at = getelementptr i8, ptr %state, i64 {CALLED_ON}
  br label %again
again:
  %seen = load atomic i32, ptr %generation.at seq_cst, align 4
  br label %look
look:
  %k = phi i64 [ 0, %again ], [ %k.next, %looked ]
  %helped = phi i32 [ 0, %again ], [ %helped.next, %looked ]
  %slot = call ptr @slot(ptr %state, i64 %k)
  %seats.at = getelementptr i8, ptr %slot, i64 {SEATS}
  %seats = load atomic i64, ptr %seats.at seq_cst, align 8
  %maybe = icmp sgt i64 %seats, 0
  br i1 %maybe, label %sit, label %looked
sit:
  %free = atomicrmw sub ptr %seats.at, i64 1 seq_cst
  %seated = icmp sgt i64 %free, 0
  br i1 %seated, label %help, label %looked
help:
  ; Others may sleep beside free seats: whoever wakes wakes two more.
  %threads.at = call ptr @field(ptr %slot, i64 {THREADS})
  %threads = load atomic i64, ptr %threads.at monotonic, align 8
  %helpers = sub i64 %threads, 1
  %caller = load atomic i32, ptr %called.at monotonic, align 4
  %beside = call i64 @worker_on(ptr %state, i32 %caller)
  %missing = call i64 @missing(ptr %state, i64 %helpers, i64 %beside)
  %asleep = icmp sgt i64 %missing, 0
  %more = icmp sgt i64 %free, 1
  %pass = and i1 %asleep, %more
  br i1 %pass, label %wake, label %work
wake:
  %two = icmp sgt i64 %free, 2
  %wakes = select i1 %two, i32 2, i32 1
  %woken = call i64 @wake_beside(ptr %generation.at, i32 %wakes, i32 %caller)
  br label %work
work:
  %own = call i32 @home(ptr %state, i64 %number)
  %homeless = icmp eq i32 %own, 0
  %first = select i1 %homeless, i64 %behind, i64 %number
  %count = call i32 @work(ptr %slot, i64 %first)
  %any = icmp ne i32 %count, 0
  br i1 %any, label %tell, label %looked
tell:
  %told = call i32 @tell(ptr %slot, i32 %count)
  br label %looked
looked:
  %helped.next = phi i32 [ %helped, %look ], [ %helped, %sit ], [ %helped, %work ], [ 1, %tell ]
  %k.next = add i64 %k, 1
  %last = icmp eq i64 %k.next, {SLOTS}
  br i1 %last, label %idle, label %look
idle:
  %busy = icmp ne i32 %helped.next, 0
  br i1 %busy, label %again, label %begin.spin
begin.spin:
  %started = call i64 @now()
  %patience = load i64, ptr %spin.at
  br label %spin
spin:
  %generation = load atomic i32, ptr %generation.at seq_cst, align 4
  %changed = icmp ne i32 %generation, %seen
  br i1 %changed, label %again, label %place
place:
  ; The caller may wait for this very processor: a worker that is woken there takes it over.
  %mine = call i32 @sched_getcpu()
  %its = load atomic i32, ptr %called.at monotonic, align 4
  %both = icmp eq i32 %mine, %its
  br i1 %both, label %yield, label %still
yield:
  %yielded = call i64 (i64, ...) @syscall(i64 {processor.give_way})
  br label %still
still:
  call void @rest()
  %time = call i64 @now()
  %spun = sub i64 %time, %started
  %enough = icmp sgt i64 %spun, %patience
  br i1 %enough, label %park, label %spin
park:
  %tied = call i1 @go_home(ptr %state, i64 %number, ptr %before)
  %parked = call i32 @sched_getcpu()
  %bits = call i32 @bit(i32 %parked)
  store atomic i32 1, ptr %parked.at monotonic, align 4
  %counted = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  call void @park(ptr %generation.at, i32 %seen, i32 %bits)
  %uncounted = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  store atomic i32 0, ptr %parked.at monotonic, align 4
  br i1 %tied, label %loose, label %again
loose:
  call void @be_free(ptr %before)
  br label %again
}}

define void @launch(ptr %state, ptr %words) {{
entry:
  %generation.at = getelementptr i8, ptr %state, i64 {GENERATION}
  %sleepers.at = getelementptr i8, ptr %state, i64 {SLEEPERS}
  %spin.at = getelementptr i8, ptr %state, i64 {WAIT}
  %threads.at = getelementptr i64, ptr %words, i64 {THREADS}
  %threads = load i64, ptr %threads.at
  %chunks.at = getelementptr i64, ptr %words, i64 {CHUNKS}
  %chunks = load i64, ptr %chunks.at
  br label %find
find:
  %k = phi i64 [ 0, %entry ], [ %k.next, %taken ]
  %slot = call ptr @slot(ptr %state, i64 %k)
  %pair = cmpxchg ptr %slot, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %found, label %taken
taken:
  %k.next = add i64 %k, 1
  %last = icmp eq i64 %k.next, {SLOTS}
  br i1 %last, label %alone, label %find
alone:
  %chunk = alloca [2 x i64], align 16
  %arguments = alloca ptr, align 8
  store ptr %chunk, ptr %arguments
  store i64 0, ptr %chunk
  %chunk.end = getelementptr i64, ptr %chunk, i64 1
  %grid.at = getelementptr i64, ptr %words, i64 {GRID}
  %grid = load i64, ptr %grid.at
  store i64 %grid, ptr %chunk.end
  %adapter = load ptr, ptr %words
  %block.at = getelementptr i64, ptr %words, i64 {BLOCK}
  %block = load ptr, ptr %block.at
  call void %adapter(ptr %arguments, ptr null, ptr null, ptr %block)
  ret void
found:
  %done.at = getelementptr i8, ptr %slot, i64 {DONE}
  %waiting.at = getelementptr i8, ptr %slot, i64 {WAITING}
  %seats.at = getelementptr i8, ptr %slot, i64 {SEATS}
  store atomic i32 0, ptr %done.at seq_cst, align 4
  store atomic i32 0, ptr %waiting.at seq_cst, align 4
  br label %word
word:
  %w = phi i64 [ 0, %found ], [ %w.next, %word ]
  %from = getelementptr i64, ptr %words, i64 %w
  %value = load i64, ptr %from
  %to = call ptr @field(ptr %slot, i64 %w)
  store atomic i64 %value, ptr %to monotonic, align 8
  %w.next = add i64 %w, 1
  %words.over = icmp eq i64 %w.next, {FIELDS_COUNT}
  br i1 %words.over, label %cut, label %word
cut:
  %p = phi i64 [ 0, %word ], [ %p.next, %cut ]
  %first = phi i64 [ 0, %word ], [ %beyond, %cut ]
  %p.next = add i64 %p, 1
  %scaled = mul i64 %chunks, %p.next
  %beyond = sdiv i64 %scaled, %threads
  %size = sub i64 %beyond, %first
  %range = call ptr @range(ptr %slot, i64 %p)
  %size.at = getelementptr i64, ptr %range, i64 {SIZE}
  store i64 %size, ptr %size.at
  %base.at = getelementptr i64, ptr %range, i64 {BASE}
  store i64 %first, ptr %base.at
  store atomic i64 %size, ptr %range seq_cst, align 8
  %cut.over = icmp eq i64 %p.next, %threads
  br i1 %cut.over, label %open, label %cut
open:
  %helpers = sub i64 %threads, 1
  %called.at = getelementptr i8, ptr %state, i64 {CALLED_ON}
  %here = call i32 @sched_getcpu()
  store atomic i32 %here, ptr %called.at monotonic, align 4
  store atomic i64 %helpers, ptr %seats.at seq_cst, align 8
  %generation = atomicrmw add ptr %generation.at, i32 1 seq_cst
  %beside = call i64 @worker_on(ptr %state, i32 %here)
  %missing = call i64 @missing(ptr %state, i64 %helpers, i64 %beside)
  %asleep = icmp sgt i64 %missing, 0
  br i1 %asleep, label %wake, label %work
wake:
  %two = icmp sgt i64 %missing, 1
  %wakes = select i1 %two, i32 2, i32 1
  %woken = call i64 @wake_beside(ptr %generation.at, i32 %wakes, i32 %here)
  %nobody = icmp eq i64 %woken, 0
  %own = call i32 @home(ptr %state, i64 0)
  %homeless = icmp eq i32 %own, 0
  %again = and i1 %nobody, %homeless
  br i1 %again, label %any, label %work
any:
  call void @wake(ptr %generation.at, i32 1)
  br label %work
work:
  %begin = call i64 @llvm.smax.i64(i64 %beside, i64 0)
  %count = call i32 @work(ptr %slot, i64 %begin)
  store atomic i64 0, ptr %seats.at seq_cst, align 8
  %done.first = call i32 @tell(ptr %slot, i32 %count)
  %all = trunc i64 %chunks to i32
  %complete = icmp eq i32 %done.first, %all
  br i1 %complete, label %leave, label %begin.spin
begin.spin:
  %started = call i64 @now()
  %patience = load i64, ptr %spin.at
  br label %spin
spin:
  %done.spin = load atomic i32, ptr %done.at seq_cst, align 4
  %complete.spin = icmp eq i32 %done.spin, %all
  br i1 %complete.spin, label %leave, label %still
still:
  call void @rest()
  %time = call i64 @now()
  %spun = sub i64 %time, %started
  %enough = icmp sgt i64 %spun, %patience
  br i1 %enough, label %announce, label %spin
announce:
  store atomic i32 1, ptr %waiting.at seq_cst, align 4
  br label %park
park:
  %done.park = load atomic i32, ptr %done.at seq_cst, align 4
  %complete.park = icmp eq i32 %done.park, %all
  br i1 %complete.park, label %leave, label %sleep
sleep:
  call void @wait_here(ptr %done.at, i32 %done.park)
  br label %park
leave:
  store atomic i32 0, ptr %slot seq_cst, align 4
  ret void
}}
"""
