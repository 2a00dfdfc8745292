"""CUDA threads of the CPU device in gdb: `source` this file, or start ginrs-gdb, which does. docs/user/debugger.md shows it.

A CUDA thread is a fiber: at most one of a block runs, on the block's OS thread; the others are stacks and a few saved registers. All is read
from memory, at the offsets that ginrs_cpu_shown holds (cpu-device/src/block/shown.rs), so a core file serves as a live process does. A thread
that does not run is shown by an unwinder that takes frame #0 of its block's OS thread for one that the fiber's innermost has called: no
register is written.
"""

import functools
import struct
from collections import namedtuple

import gdb
from gdb.unwinder import Unwinder

VERSION = 1
TABLE = "shown running live threads slot_bytes view fiber fiber_bytes limit state place wait call"
STATES = "unstarted ready exited preempted polling polling blocked dropped".split()
CALLS = ["a call", "signal {id} of context {context}", "counter {id} of context {context}", "a flush of context {context}",
         "a put or signal to rank {id} on context {context}", "GIN barrier {id} of context {context}", "LSA barrier {id}", "hybrid barrier {id}",
         "slot {id} of an LL all-to-all"]
HYBRID, UNKNOWN = 7, 0xFFFFFF
# What corosensei leaves where a fiber stopped (its arch/*.rs): registers by their offset, what it pops, and how far the stack is popped when
# a fiber's first function would return.
Machine = namedtuple("Machine", "pc sp saved popped entered")
MACHINES = {
    "i386:x86-64": Machine("rip", "rsp", {"rip": 0, "rbx": 8, "rbp": 16}, 24, 8),
    "aarch64": Machine("pc", "sp", {"x19": 0, "x29": 8, "pc": 16}, 32, 32),
}


# ---- memory -------------------------------------------------------------------------------------------------------------------------------
def read(address, size):
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def unpack(layout, address):
    return struct.unpack(layout, read(address, struct.calcsize(layout)))


def string(address, length=None):
    try:
        data = gdb.Value(address).cast(gdb.lookup_type("char").pointer())
        return data.string("utf-8", "replace", **({} if length is None else {"length": length}))
    except gdb.MemoryError:
        return "?"


def triple(index):
    return "(%d,%d,%d)" % tuple(index)


def name_of(kind, context, ident):
    """A call of the device API."""
    return (CALLS[kind] if kind < len(CALLS) else CALLS[0]).format(id=ident, context=context)


# ---- blocks and their threads ---------------------------------------------------------------------------------------------------------------
class Process:
    """The blocks that run now; empty before the first kernel."""

    def __init__(self):
        try:
            at = int(gdb.parse_and_eval("(long)&ginrs_cpu_shown"))
        except gdb.error:
            raise gdb.GdbError("no libginrs_cpu.so with a table for debuggers is loaded here (yet): is it a program made with ginrs-cc?")
        version, size, block = unpack("<IIQ", at)
        if version != VERSION:
            raise gdb.GdbError("libginrs_cpu.so has table %d, this script reads table %d: take the script of that library" % (version, VERSION))
        words = unpack("<13I8B", at + 16)
        self.at = namedtuple("Table", TABLE)(*words[:13])
        self.states = dict(zip(words[13:], STATES))
        self.blocks = []
        while block:
            found = Block(self, block)
            block = found.next
            if found.live:
                self.blocks.append(found)
        self.blocks.sort(key=lambda block: (block.grid, block.device, tuple(reversed(block.index))))


class Block:
    def __init__(self, process, address):
        self.process, at = process, process.at
        (self.next, self.slots, name, length, _, file, line, self.grid, self.stack, self.tid, self.device) = unpack(
            "<6Qi4xQQii", address + at.shown)
        (self.running,), (self.live,) = unpack("<I", address + at.running), unpack("<I", address + at.live)
        self.index = (0, 0, 0)
        if self.live:
            self.shape = unpack("<3I", address + at.threads)
            self.kernel, self.launched = string(name, length), "%s:%d" % (string(file) if file else "?", line)
            self.count = self.shape[0] * self.shape[1] * self.shape[2]
            self.index = unpack("<3I", self.slots + at.view + 12)

    @functools.cached_property
    def memory(self):
        """Of its threads' slots."""
        return read(self.slots, self.process.at.slot_bytes * self.count)

    def thread(self, linear):
        return Thread(self, linear)

    def all(self):
        """Those that have not ended."""
        return [t for t in map(self.thread, range(self.count)) if t.state != "exited"]

    def os_thread(self):
        for thread in gdb.selected_inferior().threads():
            if self.tid in (thread.ptid[1], thread.ptid[2]):
                return thread
        raise gdb.GdbError("the OS thread %d of block %s is not among gdb's threads" % (self.tid, triple(self.index)))


class Thread:
    def __init__(self, block, linear):
        self.block, self.linear, self.at = block, linear, block.process.at
        self.slot = linear * self.at.slot_bytes
        state = block.process.states.get(block.memory[self.slot + self.at.state], "?")
        self.state = "running" if linear == block.running else state

    def field(self, layout, offset):
        return struct.unpack_from(layout, self.block.memory, self.slot + offset)

    def indices(self):
        """threadIdx, blockIdx, blockDim, gridDim"""
        words = self.field("<12I", self.at.view)
        return [words[i:i + 3] for i in (0, 3, 6, 9)]

    def name(self):
        thread = self.indices()[0]
        return "thread %s of block %s of kernel %s" % (triple(thread), triple(self.block.index), self.block.kernel)

    def suspended(self):
        """Where its fiber stands and where that began: the two words of the fiber within its stack. None: it runs, or has none."""
        if self.state not in ("ready", "preempted", "polling", "blocked", "dropped"):
            return None
        (limit,) = self.field("<Q", self.at.limit)
        words = self.field("<%dQ" % (self.at.fiber_bytes // 8), self.at.fiber)
        within = [word for word in words if limit < word < limit + self.block.stack]
        return (min(within), max(within)) if len(within) >= 2 else None

    def calls(self):
        """The calls of the device API that it is in, innermost first: (file, line, kind, context, id)."""
        (call,), calls = self.field("<Q", self.at.view + self.at.call), []
        while call and len(calls) < 16:
            call, file, line, kind, context, ident = unpack("<QQiIII", call)
            calls.append((file, line, kind, context, ident))
        return calls

    def doing(self):
        """What it waits for or does, in words, and the user's line."""
        calls, (what, file, line) = self.calls(), self.field("<QQi", self.at.place)
        if self.state == "unstarted":
            return "has not begun", "-"
        text = {"running": "runs", "polling": "polls", "blocked": "in " + string(what), "dropped": "ended by an error"}.get(self.state, "may go on")
        if not calls:
            return text, "%s:%d" % (string(file), line) if self.state == "blocked" else self.line_of_frames()
        (file, line, kind, *_), hybrid = calls[-1], calls[-1][2] == HYBRID and len(calls) > 1
        name, what = name_of(*calls[-2 if hybrid else -1][2:]), " of a hybrid barrier" if hybrid else ""
        if self.state == "polling":
            text = self.waits_for(name) + what
        else:
            text = "in %s%s%s, %s" % ("a call for " if kind in (1, 2) else "", name, what, text)
        return text, "%s:%d" % (string(file), line)

    def waits_for(self, name):
        """With what the word of a wait that has lasted holds now, or who has not come."""
        owner, word, wants, bits, note = self.field("<QQQII", self.at.wait)
        kind, rank = note >> 24, note & UNKNOWN
        what, _, where = name.partition(" of ")
        if what.startswith(("signal", "counter")):
            if owner and kind == 0 and word:
                mask = (1 << min(bits, 64)) - 1
                what += " >= %d (has %s)" % (wants & mask, self.held(word, bits, mask))
            return "waits for %s of %s" % (what, where)
        says = {1: ": operations to rank %d are not done", 2: ": rank %d has not come", 4: ": of rank %d"}.get(kind)
        return "waits in " + name + (says % rank if owner and says and rank != UNKNOWN else "")

    @staticmethod
    def held(word, bits, mask):
        """What a word holds; `?` where a core file does not have it."""
        try:
            return unpack("<I" if bits <= 32 else "<Q", word)[0] & mask
        except gdb.MemoryError:
            return "?"

    def line_of_frames(self):
        with Looked(self):
            for frame in user_frames(gdb.newest_frame()):
                place = frame.find_sal()
                if place.symtab:
                    return "%s:%d" % (place.symtab.filename, place.line)
        return "?"


# ---- frames -----------------------------------------------------------------------------------------------------------------------------------
class Fibers(Unwinder):
    """Takes frame #0 of one OS thread for what a fiber has called, and ends the stack of a fiber where it began."""

    def __init__(self):
        super().__init__("ginrs fibers")
        self.fiber = None  # Thread, (where it stands, where it began), the OS thread's number

    def shows(self, thread):
        at = thread.suspended() if thread else None
        self.fiber = (thread, at, thread.block.tid) if at else None
        gdb.invalidate_cached_frames()

    def here(self):
        selected = gdb.selected_thread()
        return self.fiber is not None and selected is not None and self.fiber[2] in selected.ptid[1:]

    def __call__(self, pending):
        if not self.here():
            return None
        machine = MACHINES.get(gdb.selected_inferior().architecture().name())
        if machine is None:
            return None
        sp, (stands, began) = int(pending.read_register(machine.sp)), self.fiber[1]
        word = gdb.lookup_type("unsigned long")
        value = lambda number: gdb.Value(number).cast(word)
        if sp == began + machine.entered:  # the frame that called the fiber's first function
            info = pending.create_unwind_info(FrameId(value(sp), value(0)))
            info.add_saved_register(machine.pc, value(0))
            info.add_saved_register(machine.sp, value(sp + 16))
            return info
        if stands <= sp < stands + self.fiber[0].block.stack:
            return None  # of the fiber: as its own unwind information says
        info = pending.create_unwind_info(FrameId(value(stands), value(int(pending.read_register(machine.pc)))))
        for register, offset in machine.saved.items():
            info.add_saved_register(register, value(unpack("<Q", stands + offset)[0]))
        info.add_saved_register(machine.sp, value(stands + machine.popped))
        return info


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


FIBERS = Fibers()
gdb.unwinder.register_unwinder(None, FIBERS, replace=True)


def in_library(frame):
    name = gdb.solib_name(frame.pc())
    return name is not None and "libginrs_cpu" in name


def in_headers(frame):
    """Of the device API or of the CPU device."""
    place = frame.find_sal()
    name = place.symtab.filename if place.symtab else ""
    return any(folder in name for folder in ("/ginrs/cpu/include/", "/include/ginrs/", "/nccl_device/"))


def user_frames(frame):
    """From the innermost of the program's own out, to where the library called the kernel; those in headers if there are no others."""
    frame, frames = frame.older() if FIBERS.here() else frame, []
    while frame is not None:
        if not in_library(frame):
            if frames or gdb.solib_name(frame.pc()) is None or frame.find_sal().symtab:
                frames.append(frame)
        elif frames:
            break
        frame = frame.older()
    return [frame for frame in frames if not in_headers(frame)] or frames


class Looked:
    """The frames of a CUDA thread, for a look: what was selected is selected again."""

    def __init__(self, thread):
        self.thread = thread

    def __enter__(self):
        self.selected, self.fiber = gdb.selected_thread(), FIBERS.fiber
        self.frame = gdb.selected_frame().level() if self.selected else 0
        self.thread.block.os_thread().switch()
        FIBERS.shows(self.thread)

    def __exit__(self, *_):
        FIBERS.fiber = self.fiber
        if self.selected:
            self.selected.switch()
        gdb.invalidate_cached_frames()
        frame = gdb.newest_frame()
        while frame.level() < self.frame and frame.older():
            frame = frame.older()
        frame.select()


class Filter:
    """In a backtrace of the thread in focus: the program's own frames (`backtrace -no-filters` has all)."""

    def __init__(self):
        self.name, self.priority, self.enabled = "ginrs", 50, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        if FOCUS.thread is None or gdb.selected_thread() is None or FOCUS.thread.block.tid not in gdb.selected_thread().ptid[1:]:
            return frames
        levels = {frame.level() for frame in user_frames(gdb.newest_frame())}
        return (frame for frame in frames if not levels or frame.inferior_frame().level() in levels)


# ---- focus ------------------------------------------------------------------------------------------------------------------------------------
class Focus:
    """The CUDA thread that was chosen; none once the program goes on."""

    def __init__(self):
        self.thread = None
        gdb.events.cont.connect(lambda _: self.leave())
        gdb.events.stop.connect(lambda _: self.stopped())
        gdb.events.exited.connect(lambda _: self.leave())

    def leave(self):
        self.thread = None
        if FIBERS.fiber:
            FIBERS.shows(None)

    def stopped(self):
        """At a breakpoint in a kernel the thread that runs there is in focus."""
        self.leave()
        try:
            self.thread = running_here()
            if self.thread:
                self.say_indices()
        except (gdb.error, gdb.GdbError):
            pass  # no kernel yet, or no libginrs_cpu.so

    def take(self, thread):
        thread.block.os_thread().switch()
        FIBERS.shows(thread)
        self.thread = thread
        self.say_indices()
        frames = user_frames(gdb.newest_frame())
        if frames:
            frames[0].select()

    def say_indices(self):
        """$threadIdx and its like: with .x, .y, .z where the program has the type, else arrays of three."""
        for name, index in zip(("threadIdx", "blockIdx", "blockDim", "gridDim"), self.thread.indices()):
            try:
                kind = gdb.lookup_type("uint3")
            except gdb.error:
                kind = gdb.lookup_type("unsigned int").array(2)
            gdb.set_convenience_variable(name, gdb.Value(struct.pack("<3I", *index), kind))


def running_here():
    """The CUDA thread that runs on the selected OS thread, or None."""
    here = gdb.selected_thread()
    block = next((b for b in Process().blocks if here and b.tid in here.ptid[1:]), None)
    return block.thread(block.running) if block and block.running < block.count else None


class Runs(gdb.Function):
    """$cuda_thread(X, Y, Z), $cuda_block(X, Y, Z): 1 if that one runs on the selected OS thread; for conditions of breakpoints. Y and Z are 0
if they are not given."""

    def __init__(self, name, which):
        super().__init__(name)
        self.which = which

    def invoke(self, x, y=0, z=0):
        thread = running_here()
        return int(thread is not None and thread.indices()[self.which] == (int(x), int(y), int(z)))


FOCUS = Focus()
Filter()
Runs("cuda_thread", 0)
Runs("cuda_block", 1)


# ---- commands ---------------------------------------------------------------------------------------------------------------------------------
def ranges(block, threads):
    """(0,0,0)-(31,0,0), (33,0,0)"""
    parts = []
    for thread in threads:
        if parts and parts[-1][1] + 1 == thread.linear:
            parts[-1][1] = thread.linear
        else:
            parts.append([thread.linear, thread.linear])
    index = lambda linear: triple(block.thread(linear).indices()[0])
    text = ["%s-%s" % (index(a), index(b)) if a != b else index(a) for a, b in parts]
    return ", ".join(text[:4]) + (", and %d more ranges" % (len(text) - 4) if len(text) > 4 else "")


class InfoCuda(gdb.Command):
    """CUDA threads of the CPU device: `info cuda threads`, `info cuda blocks`, `info cuda kernels`."""

    def __init__(self):
        super().__init__("info cuda", gdb.COMMAND_STATUS, prefix=True)


class InfoThreads(gdb.Command):
    """Which CUDA threads live, what each does or waits for, and at which line of the program. Those of a block that do the same share a line;
`*` marks the one in focus."""

    def __init__(self):
        super().__init__("info cuda threads", gdb.COMMAND_STATUS)

    def invoke(self, argument, _):
        blocks, last, rows = Process().blocks, None, []
        for block in blocks:
            groups = {}
            for thread in block.all():
                groups.setdefault(thread.doing(), []).append(thread)
            for (text, line), threads in groups.items():
                focus = FOCUS.thread and FOCUS.thread.block.tid == block.tid and FOCUS.thread.linear in [t.linear for t in threads]
                rows.append((block, "*" if focus else " ", ranges(block, threads), len(threads), text, line))
        for block, mark, threads, count, text, line in rows:
            if last is None or (block.grid, block.device) != (last.grid, last.device):
                print("kernel %d, %s, launched at %s, device %d, grid %s, block %s" % (
                    block.grid, block.kernel, block.launched, block.device, triple(block.thread(0).indices()[3]), triple(block.shape)))
            last = block
            print("%s block %s thread %s: %s at %s%s" % (mark, triple(block.index), threads, text, line, "" if count == 1 else " [%d]" % count))
        if not rows:
            print("no kernel runs")


class InfoBlocks(gdb.Command):
    """The blocks that run, and the OS thread of each."""

    def __init__(self):
        super().__init__("info cuda blocks", gdb.COMMAND_STATUS)

    def invoke(self, argument, _):
        for block in Process().blocks:
            try:
                number = "thread %d (LWP %d)" % (block.os_thread().num, block.tid)
            except gdb.GdbError:
                number = "LWP %d" % block.tid
            print("kernel %d, %s, device %d, block %s: %d of %d threads live, %s" % (
                block.grid, block.kernel, block.device, triple(block.index), block.live, block.count, number))


class InfoKernels(gdb.Command):
    """The kernels that run."""

    def __init__(self):
        super().__init__("info cuda kernels", gdb.COMMAND_STATUS)

    def invoke(self, argument, _):
        kernels = {}
        for block in Process().blocks:
            kernels.setdefault((block.grid, block.device), []).append(block)
        for (grid, device), blocks in kernels.items():
            print("kernel %d, %s, launched at %s, device %d: %d blocks run, of grid %s" % (
                grid, blocks[0].kernel, blocks[0].launched, device, len(blocks), triple(blocks[0].thread(0).indices()[3])))


USAGE = "usage: cuda [kernel N] [device N] [block X,Y,Z] [thread X,Y,Z], or cuda off"


class Cuda(gdb.Command):
    """Chooses a CUDA thread: `cuda thread (3,0,0)`, `cuda block 1 thread 2`, `cuda device 1 block 0 thread 0`. What is not named stays as it
is in focus, or is the first there is. `backtrace`, `up`, `print` and $threadIdx, $blockIdx, $blockDim, $gridDim are then that thread's, until
the program goes on; `cuda off` gives them back to the OS thread. `cuda thread` alone says which is in focus."""

    def __init__(self):
        super().__init__("cuda", gdb.COMMAND_STACK)

    def invoke(self, argument, _):
        if argument.strip() == "off":
            FOCUS.leave()
            return
        wanted = parse(argument)
        if not any(value is not None for value in wanted.values()):
            if FOCUS.thread is None:
                raise gdb.GdbError("no CUDA thread is in focus; %s" % USAGE)
            print(FOCUS.thread.name())
            return
        thread = choose(wanted)
        FOCUS.take(thread)
        text, line = thread.doing()
        print("[%s on device %d: %s at %s]" % (thread.name(), thread.block.device, text, line))
        gdb.execute("frame")


def parse(argument):
    wanted = dict.fromkeys(("kernel", "device", "block", "thread"))
    words = argument.replace("(", " ").replace(")", " ").replace(",", " ").split()
    if not words or words[0] not in wanted:
        raise gdb.GdbError(USAGE)
    for word in words:
        if word in wanted:
            name, numbers = word, []
            continue
        if not word.isdigit():
            raise gdb.GdbError("`%s' is no number; %s" % (word, USAGE))
        numbers.append(int(word))
        if len(numbers) > (3 if name in ("block", "thread") else 1):
            raise gdb.GdbError("too many numbers behind `%s'; %s" % (name, USAGE))
        wanted[name] = tuple(numbers)
    for name in ("block", "thread"):
        if wanted[name]:
            wanted[name] = (wanted[name] + (0, 0))[:3]
    return wanted


def choose(wanted):
    blocks, focus = Process().blocks, FOCUS.thread
    if not blocks:
        raise gdb.GdbError("no kernel runs")
    if focus and focus.block.index == (wanted["block"] or focus.block.index):
        same = [b for b in blocks if b.tid == focus.block.tid]
        if same and not wanted["kernel"] and not wanted["device"]:
            blocks = same
    fits = [b for b in blocks
            if (not wanted["kernel"] or b.grid == wanted["kernel"][0]) and (not wanted["device"] or b.device == wanted["device"][0])
            and (not wanted["block"] or b.index == wanted["block"])]
    if not fits:
        raise gdb.GdbError("no such block runs; `info cuda blocks' lists those that do")
    block = fits[0]
    live = block.all()
    if not wanted["thread"]:
        return live[0]
    for thread in map(block.thread, range(block.count)):
        if thread.indices()[0] == wanted["thread"]:
            if thread.state == "exited":
                raise gdb.GdbError("%s has ended" % thread.name())
            return thread
    raise gdb.GdbError("block %s has %s threads, none %s" % (triple(block.index), triple(block.shape), triple(wanted["thread"])))


for command in (InfoCuda, InfoThreads, InfoBlocks, InfoKernels, Cuda):
    command()
