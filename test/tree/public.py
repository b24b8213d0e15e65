# public.py - public functions, options and types say what a caller must know.
"""What a function must say follows from its signature:

    shapes, dtypes   it takes or returns tensors
    ownership        it returns a pointer or hands one out through an argument
    units            it takes or returns numbers: each argument is named in its text
    errors           it returns a weir_status or a pointer that may be NULL
    source           it is an algorithm with a paper

It says so in its own comment, in that of its group or in that of its section; in the file's first
comment only by a sentence about all shapes or dtypes, or a paragraph that begins with "Errors." or
"Ownership.". docs/public_headers.py knows which comment belongs to what. Run as a program, this
file prints how many functions need each part and how many have it.
"""
import os
import re
import sys


ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "docs"), os.path.join(ROOT, "test")]

import public_headers                               # noqa: E402
from tree.source import Plant, Rule, Tree           # noqa: E402

NUMBER = re.compile(r"^(const )?(int|size_t|double|float|(u?int(8|32|64)_t))$")
# A shape: "(n,c,h,w)", or a word for one.
SHAPE = re.compile(r"\([a-z0-9*][^()\"]*,[^()\"]*\)|\(\.\.\.\)|\([a-z]+\)|\bshapes?\b|\bscalars?\b|"
                   r"\bbroadcast|\baxis\b|\baxes\b|\bdims?\b|\bdesc\b|\bsize of\b", re.I)
DTYPE = re.compile(r"\b(f32|f64|f16|bf16|i32|i64|u8|bool|dtypes?|types?|floats?|integers?|halves|"
                   r"half|numbers?|desc)\b", re.I)
OWNER = re.compile(r"\b(owns?|owned|borrowed|borrows|frees?|freed|static|retain|released?|"
                   r"releases|references?|valid (until|while)|valid only|view|lives?|copied|"
                   r"yours)\b", re.I)
ERROR = re.compile(r"\b(WEIR_)?ERR_[A-Z]+\b|\bNULL\b|\b(never|cannot) fails?\b|\bis refused\b")
RESULT = re.compile(r"\b(bytes?|seconds?|milliseconds|numbers?|counts?|elements?|samples?|"
                    r"threads?|batches|index|labels?|classes|epoch|pass|1|0|rate|ms)\b", re.I)
YEAR = re.compile(r"\b(19|20)\d\d\b")
EVERY = {"shapes": re.compile(r"\b(any|every|all|its) shapes?\b|\bsame shape\b", re.I),
         "dtypes": re.compile(r"\b(any|every|all) (shapes? and )?(dtypes?|element types?)\b|"
                              r"All operations take", re.I),
         "errors": re.compile(r"(^|\n\n)Errors\..*ERR_", re.S),
         "ownership": re.compile(r"(^|\n\n)Ownership[.:]")}
# Algorithms of the literature: the comment names authors and year.
ALGORITHMS = re.compile(
    r"weir_(prelu|elu|selu|gelu|silu|hardswish|attention|lstm|gru|batch_norm|layer_norm|group_norm|"
    r"rms_norm|dropout|adam_update|adamw_update|adagrad_update|rmsprop_update|lr_cosine|clip_norm|"
    r"checkpoint|splitmix64|device_set_policy|lenet_new|resnet_new|resnet_cifar_new|vgg16_new|"
    r"mobilenet_v2_new|densenet121_new|unet_new|gpt_new|tree_lstm_new|scaler_new|autocast_begin)$")


def is_public(path):
    return path.startswith("include/weir/") and path.endswith(".h")


def needs(item):
    """The parts that a function's text must have."""
    kinds = [kind for kind, _ in item.parameters()]
    result, every = item.result(), kinds + [item.result()]
    parts = []
    if any("weir_tensor" in kind or "weir_pair" in kind for kind in every):
        parts += ["shapes", "dtypes"]
    if "*" in result or any("**" in kind and "const *" not in kind for kind in kinds):
        parts.append("ownership")
    if any(NUMBER.match(kind) for kind in every):
        parts.append("units")
    if result == "weir_status" or "*" in result and not result.startswith("const"):
        parts.append("errors")
    if ALGORITHMS.match(item.name):
        parts.append("source")
    return parts


def missing(header, item, part):
    """Why the part is not there; "" if it is."""
    own = public_headers.own_text(item)
    text = own + "\n\n" + public_headers.section_text(item)
    pattern = {"shapes": SHAPE, "dtypes": DTYPE, "ownership": OWNER, "errors": ERROR}.get(part)
    if part == "source":
        return "" if YEAR.search(own) else "names no source (authors, year)"
    if part == "units":
        unnamed = [name for kind, name in item.parameters()
                   if NUMBER.match(kind) and not re.search(rf"\b{name}\b", text)]
        if unnamed:
            return f"does not say what {' and '.join(unnamed)} means, in which unit"
        counted = NUMBER.match(item.result()) and not RESULT.search(own)
        return "does not say the unit of its result" if counted else ""
    if pattern.search(text) or EVERY[part].search(header.text):
        return ""
    return f"says nothing of {part}"


def headers_of(tree):
    for path in filter(is_public, tree.text):
        yield path, tree.kept("public " + path, lambda p=path: public_headers.read(tree.text[p]))


def rule_documented(tree):
    for path, header in headers_of(tree):
        for item in header.items("function"):
            if not public_headers.own_text(item) and not public_headers.section_text(item):
                yield path, item.line, f"{item.name} has no comment"
                continue
            for part in needs(item):
                why = missing(header, item, part)
                if why:
                    yield path, item.line, f"{item.name} {why}"


def undocumented_field(item, declaration, comment):
    """Why the field is not documented; "" if it is."""
    names = re.findall(r"(?:\*|\b)(\w+)(?:\[[^\]]*\])*\s*(?:,|$)", declaration) \
        if "(*" not in declaration else re.findall(r"\(\*(\w+)\)", declaration)
    text = comment + "\n" + item.group.comment
    if not comment and not all(re.search(rf"\b{name}\b", item.group.comment) for name in names):
        return "has no comment"
    if item.name.endswith("_options") and "(*" not in declaration and \
            not re.match(r"bool\b", declaration) and \
            not re.search(r"\b0\b|\bNULL\b|\bdefault|[{}]|must", text):
        return "does not say what 0 or NULL means"
    return ""


def rule_fields(tree):
    for path, header in headers_of(tree):
        for item in header.items("struct", "enum", "type"):
            if item.kind != "enum" and not item.group.comment and not item.behind or \
                    item.kind == "enum" and not (item.group.comment or item.behind or all(
                        comment for _, comment, _ in item.fields())):
                yield path, item.line, f"the type {item.name} has no comment"
            if item.kind == "struct":
                for declaration, comment, line in item.fields():
                    why = undocumented_field(item, declaration, comment)
                    if why:
                        yield path, line, f"{item.name}: '{declaration}' {why}"


def counts(tree):
    """One line: how many functions need each part, and how many have it."""
    functions, have, want = 0, {}, {}
    for _, header in headers_of(tree):
        for item in header.items("function"):
            functions += 1
            for part in needs(item):
                want[part] = want.get(part, 0) + 1
                have[part] = have.get(part, 0) + (missing(header, item, part) == "")
    return f"public functions: {functions}, " + ", ".join(
        f"{part} {have[part]}/{want[part]}"
        for part in ("shapes", "dtypes", "ownership", "units", "errors", "source") if part in want)


RULES = [Rule("documented", is_public, rule_documented), Rule("fields", is_public, rule_fields)]
PLANTS = [
    Plant("documented", {
        "include/weir/a.h": "/* a.h - x. */\n\n/* ---- sums; results have x's shape and dtype, "
                            "borrowed; NULL after a mistake ---- */\n\n"
                            "weir_tensor *f(weir_tensor *x);\n"
                            "weir_tensor *g(weir_tensor *x, double by);\n\n"
                            "/* Times `by`. */\nweir_tensor *h(weir_tensor *x, double by);\n"
                            "weir_tensor *weir_gelu(weir_tensor *x);\n\n"
                            "/* ---- others ---- */\n\n/* Bytes. */\nsize_t k(int n);\n"
                            "/* Does. */\nweir_status l(weir_tensor *x);\n",
        "include/weir/b.h": "/* b.h - x. */\n\nint f(void);\n",
        "include/weir/c.h": "/* c.h - x.\n *\n * Errors. ERR_IO. Tensors of any shape and dtype. */"
                            "\n\n/* Of n bytes. You own it. */\nchar *f(int n);\n"
                            "/* Static. */\nconst char *g(weir_tensor *t);\n",
        "src/core/b.h": "int f(void);\n",
    }, {("include/weir/a.h", 6), ("include/weir/a.h", 10), ("include/weir/a.h", 15),
        ("include/weir/a.h", 17), ("include/weir/b.h", 3)}),
    Plant("fields", {
        "include/weir/a.h": "/* a.h - x. */\n\n/* Of a call. */\ntypedef struct a_options {\n"
                            "    int    n;      /* of steps; 0: 1 */\n    double k;\n"
                            "    /* Both in ms. */\n    double l, m;\n} a_options;\n\n"
                            "typedef struct b b;\n",
    }, {("include/weir/a.h", 6), ("include/weir/a.h", 8), ("include/weir/a.h", 11)}),
]


if __name__ == "__main__":
    print(counts(Tree(root=ROOT)))
