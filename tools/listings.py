"""Count instructions by class in the output of compilers: PTX, SASS, LLVM IR, assembly.

The counts are static: an instruction in a loop counts once, one in an unrolled loop as often as it
was written out. An instruction that loads or stores a vector counts once.
"""

import re
from collections import Counter

FMA, MATRIX = "fma", "matrix"
GLOBAL_LOADS, GLOBAL_STORES = "global loads", "global stores"
LOCAL_LOADS, LOCAL_STORES = "local loads", "local stores"
LOADS, STORES = "loads", "stores"  # of memory that the text does not tell apart
ASSEMBLY = "assembly"  # the name of the machine's, as opposed to the others
STACK, BARRIERS, SHUFFLES = "stack", "barriers", "shuffles"
CLASSES = (FMA, GLOBAL_LOADS, GLOBAL_STORES, LOCAL_LOADS, LOCAL_STORES, BARRIERS, SHUFFLES)
RARE = (MATRIX, LOADS, STORES, STACK)
_IN_ASSEMBLY = (FMA, LOADS, STORES, STACK)

# Tables of (pattern, class): an instruction is of the first class that matches, in each table.
_PTX = (
    (r"(fma|mad)\b\S*\.(f16|f16x2|f32|f64)\s", FMA),
    (r"(mma|wmma\.mma|wgmma\.mma_async)\.", MATRIX),
    (r"cp\.async\.c[ag]\.shared", GLOBAL_LOADS),
    (r"(ld|ldu)\.(volatile\.|relaxed\.)?global", GLOBAL_LOADS),
    (r"st\.(volatile\.|relaxed\.)?global", GLOBAL_STORES),
    (r"(ld\.(volatile\.)?shared|ldmatrix)", LOCAL_LOADS),
    (r"st\.(volatile\.)?shared", LOCAL_STORES),
    (r"(ld|st)\.local", STACK),
    (r"(bar|barrier)\.", BARRIERS),
    (r"shfl\.", SHUFFLES),
)
_PTX_TOO = ((r"cp\.async\.c[ag]\.shared", LOCAL_STORES),)
_SASS = (
    (r"[FDH]FMA", FMA),
    (r"(HMMA|IMMA|DMMA|HGMMA|QGMMA)", MATRIX),
    (r"LDG", GLOBAL_LOADS),  # LDGSTS, too
    (r"STG", GLOBAL_STORES),
    (r"LDS", LOCAL_LOADS),
    (r"STS", LOCAL_STORES),
    (r"(LDL|STL)", STACK),
    (r"BAR\b", BARRIERS),
    (r"SHFL", SHUFFLES),
)
_SASS_TOO = ((r"LDGSTS", LOCAL_STORES),)
_X86_FMA = ((r"vfn?m(add|sub)", FMA),)
_X86 = (
    (r"(lea|nop|data16|j|call|ret|prefetch|push|pop)|[^(]*$", None),
    (r".*\([^)]*%[re][sb]p", STACK),
    (r"(?!cmp|test|v?u?comis)[^#]*\)\s*(#|$)", STORES),
    (r".", LOADS),
)
_ARM_FMA = ((r"fml[as]|fn?m(add|sub)|vfm[as]|vml[as]", FMA),)
_ARM = (
    (r"v?(ld|st).*\[(sp|x29|fp|r11)\b", STACK),
    (r"v?ld.*\[", LOADS),
    (r"v?st.*\[", STORES),
)


def shown(kind, counts, name):
    """Return a count as text: `-` where that kind of text does not tell."""
    told = name in _IN_ASSEMBLY if kind == ASSEMBLY else name not in (LOADS, STORES)
    return str(counts[name]) if told else "-"


def _count(instructions, *tables):
    """Return the Counter of classes. An instruction is its opcode, a blank, and its operands."""
    found = Counter()
    for text in instructions:
        for table in tables:
            found[next((name for sign, name in table if re.match(sign, text)), None)] += 1
    del found[None]
    return found


def ptx(text, kernel):
    """Return the Counter of NVIDIA's virtual instructions of an entry point."""
    _, _, body = text.partition(f".entry {kernel}(")
    body = re.sub(r"//[^\n]*", "", body.partition(".entry ")[0]).partition("{")[2]
    statements = (re.sub(r"^[\s{}]*(\$?\w+:\s*)*(@!?%\w+\s+)?", "", s) for s in body.split(";"))
    return _count((s + " " for s in statements), _PTX, _PTX_TOO)


def sass(text, kernel):
    """Return the Counter of NVIDIA's machine instructions, as nvdisasm or cuobjdump print them."""
    for mark in (f"Function : {kernel}\n", f".text.{kernel}:"):
        if mark in text:
            text = text.partition(mark)[2]
            text = re.split(r"\n\s*(?:Function : |\.section\s)", text)[0]
            break
    found = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", text)
    return _count(found, _SASS, _SASS_TOO)


# LLVM IR. Address spaces may be gone, so an address has that of what it is made from.

_DEFINE = re.compile(r"^define [^\n]*?@([\w.$-]+)\((.*?)\) [^\n]*\{\n(.*?)^\}", re.M | re.S)
_DERIVED = re.compile(
    r"\s*(%[\w.$-]+) = (alloca|getelementptr|bitcast|phi|select|addrspacecast)\b(.*)"
)
_ACCESS = re.compile(r"\b(load|store)\b (.*?)(?:, align|, !|$)")
_POINTER = re.compile(r", (?=ptr\b|[^,]*?\* )")  # where a pointer's operand begins
_CALL = re.compile(r"\bcall\b.*?@([\w.$-]+)\((.*)\)")
_CALLED = (
    (r"llvm\.fmuladd|llvm\.fma|_Z\d+(_cl_)?(fma|mad)[A-Z\d]", FMA),
    (r"_Z7barrier|pocl\.barrier|\w*work_group_barrier", BARRIERS),
    (r"\w*sub_group\w*(shuffle|broadcast)", SHUFFLES),
)


def llvm_ir(text, kernel):
    """Return the Counter of a kernel and the functions it calls, as the front end left them."""
    functions = {m[1]: (_split(m[2]), m[3].splitlines()) for m in _DEFINE.finditer(text)}
    if kernel not in functions:
        return Counter()
    arguments = ["global" if re.search(r"ptr|\*", p) else None for p in functions[kernel][0]]
    return _function(functions, kernel, arguments, kernel, ())


def _function(functions, name, spaces, kernel, callers):
    """Return the Counter of a function whose arguments point to `spaces`."""
    parameters, lines = functions[name]
    known = {p.split()[-1]: space for p, space in zip(parameters, spaces)}

    def space(operand):
        """Return `global`, `local`, `stack` or None for the address in the text of an operand."""
        if m := re.search(r"addrspace\(([13])\)", operand):
            return {"1": "global", "3": "local"}[m[1]]
        if f"@{kernel}." in operand:
            return "local"
        names = re.findall(r"%[\w.$-]+", operand)
        return next((known[name] for name in names if known.get(name)), None)

    counts = Counter()
    for line in lines:
        if m := _DERIVED.match(line):
            known[m[1]] = "stack" if m[2] == "alloca" else space(m[3])
        elif m := _CALL.search(line):
            called = _count([m[1]], _CALLED)
            if not called and m[1] in functions and m[1] not in (name, *callers):
                pointed = [space(operand) for operand in _split(m[2])]
                if m[1].startswith("_Z") and not any(pointed):
                    continue  # a built-in function that accesses nothing, such as get_local_id
                called = _function(functions, m[1], pointed, kernel, (name, *callers))
            counts += called
        elif (m := _ACCESS.search(line)) and (
            where := space(_POINTER.split(m[2], maxsplit=1)[-1])
        ):
            counts[STACK if where == "stack" else f"{where} {m[1]}s"] += 1
    return counts


def _split(operands):
    """Return the parts of a list between commas that are outside of all brackets."""
    return re.split(r",\s*(?![^(<\[{]*[)>\]}])", operands) if operands.strip() else []


# The machine's assembly, as objdump or LLVM's prints it.

_LINE = re.compile(r"^\s*[0-9a-f]+: *\t(?:[a-z]+\d* (?=v?[a-z]+ ))?([a-z][\w.]*\s*.*)$")
_BODY = re.compile(r"^[0-9a-f]+ <([^>]+)>:\n(.*?)(?:\n\n|\Z)", re.M | re.S)
_BRANCH = re.compile(r"(?:callq?|bl)\s.*<([\w.$-]+?)(?:@plt)?>$")


def assembly(text, functions):
    """Return the Counter of the first of `functions` that is there, and of the functions it calls,
    in x86, AArch64 or ARM code.

    For a CPU, global and local memory are the same, so loads and stores are not told apart; those
    of the stack are, since they include what did not fit the registers.
    """
    bodies = {m[1]: [line[1] for line in map(_LINE.match, m[2].splitlines()) if line]
              for m in _BODY.finditer(text)}
    x86 = "x86-64" in text or "i386" in text
    tables = (_X86_FMA, _X86) if x86 else (_ARM_FMA, _ARM)

    def counted(name, callers):
        counts = _count(bodies[name], *tables)
        for called in filter(None, map(_BRANCH.match, bodies[name])):
            if called[1] in bodies and called[1] not in (name, *callers):
                counts += counted(called[1], (name, *callers))
        return counts

    return next((counted(name, ()) for name in functions if name in bodies), Counter())
