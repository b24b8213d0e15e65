# plants.py - planted pages with mistakes that test/docs.py must find, and pages without any.
GOOD = """# Good

```sh
echo one
cd test; HERE=$PWD; export HERE
```

Variables and the folder stay.

```sh
test "$PWD" = "$HERE"
cat <<EOF > PLACEHOLDER.txt
<placeholder>
EOF
rm PLACEHOLDER.txt
cd ..
```
<!-- fails -->
```sh
echo said
false
```
<!-- output -->
```text
s...d
```
<!-- file: made/made.json -->
```json
{}
```
```sh
cat made/made.json
```
<!-- output -->
```text
{}
```
<!-- in: test/pages/plants.py -->
```python
DRIED = (1,
...
         3)
```
<!-- elsewhere: test/pages/plants.py -->
```sh
echo  run elsewhere
```
"""
DRIED = (1,
         2,
         3)
ELSEWHERE = """
    echo run \
        elsewhere
"""

# (name, page, the lines at which a mistake is reported, or None where the page is right).
PLANTS = [
    ("good", GOOD, None),
    ("command", "# A\n\n```sh\ntrue\nfalse\ntrue\n```\n", {3}),
    ("missing-command", "# A\n\n```sh\n./weir-no-such-program --help\n```\n", {3}),
    ("fails", "# A\n\n<!-- fails -->\n```sh\ntrue\n```\n", {4}),
    ("language", "# A\n\n```\nx\n```\n\n```bash\nx\n```\n", {3, 7}),
    ("no-end", "# A\n\n```text\nx\n", {3}),
    ("indented", "# A\n\n    cmake .\n\n- item\n\n    part of it\n", {3}),
    ("placeholder", "# A\n\n```sh\necho <file> # x\n```\n\n```sh\necho GRAPH.json --x=NAME\n```\n",
     {3, 7}),
    ("excerpt", "# A\n\n<!-- in: test/pages/plants.py -->\n```c\nint no_such_line;\n```\n", {4}),
    ("excerpt-order", "# A\n\n<!-- in: test/pages/plants.py -->\n```c\n3)\nDRIED = (1,\n```\n",
     {4}),
    ("excerpt-file", "# A\n\n<!-- in: test/none.c -->\n```c\nint a;\n```\n", {4}),
    ("c-alone", "# A\n\n```c\nint a;\n```\n", {3}),
    ("output", "# A\n\n```sh\necho two\n```\n<!-- output -->\n```text\none\n```\n", {7}),
    ("output-order", "# A\n\n```sh\necho b; echo a\n```\n<!-- output -->\n```text\na\nb\n```\n",
     {7}),
    ("output-alone", "# A\n\n<!-- output -->\n```text\none\n```\n", {4}),
    ("elsewhere", "# A\n\n<!-- elsewhere: test/pages/page.py -->\n```sh\necho zzz\n```\n", {4}),
    ("no-case", "# A\n\n```sh\necho 'test_op: 0 passed, 0 failed'\n```\n", {3}),
    ("directive", "# A\n\n<!-- long -->\nWords.\n", {4}),
]
PYTHON_PLANTS = [
    ("python-good", "# A\n\n```python\na = 1\n```\n\n```python\nprint(a + 1)\n```\n"
     "<!-- output -->\n```text\n2\n```\n<!-- fails -->\n```python\nraise ValueError(3)\n```\n",
     None),
    ("python", "# A\n\n```python\na = 1\n```\n\n```python\nprint(b)\n```\n", {7}),
    ("python-output", "# A\n\n```python\nprint(1)\n```\n<!-- output -->\n```text\n2\n```\n", {7}),
    ("python-dies", "# A\n\n```python\nimport os\nos._exit(0)\n```\n", {3}),
]
