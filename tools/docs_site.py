"""Writes the documentation as a searchable HTML site: docs_site.py FOLDER

Pages: the README, the tutorial and the design pages (from Markdown), every public name of the package's
modules (from docstrings and signatures), every operator (from the table).  The search runs in the browser over
search.js, without a server.
"""
import html
import importlib
import inspect
import json
import os
import re
import sys

import cresset
from cresset import _C
from op_pages import facts

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODULES = {
    "torch": "", "nn": "nn", "nn.functional": "nn.functional", "nn.init": "nn.init", "nn.utils": "nn.utils", "optim": "optim",
    "optim.lr_scheduler": "optim.lr_scheduler", "utils.data": "utils.data", "autograd": "autograd", "func": "func", "linalg": "linalg",
    "fft": "fft", "special": "special", "distributions": "distributions", "compiler": "compiler", "fx": "fx", "jit": "jit",
    "library": "library", "random": "random", "sparse": "sparse", "higher-order operators": "_higher_order_ops"}
PAGES = {"index": "README.md", "tutorial": "docs/tutorial.md", "design": "DESIGN.md", "contributing": "CONTRIBUTING.md",
         "changes": "CHANGELOG.md", "names": "docs/names.md", "claims": "docs/claims.md"}

STYLE = """body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#222;display:flex}
nav{width:15em;min-height:100vh;background:#f4f5f7;padding:1em;box-sizing:border-box;flex:none;font-size:14px}
nav a{display:block;color:#225;text-decoration:none;padding:.1em 0}nav b{display:block;margin-top:.8em}
main{max-width:56em;padding:1em 2em;overflow:auto}pre{background:#f7f7f4;padding:.7em;overflow:auto;font-size:14px}
code{font-size:.92em;background:#f7f7f4}pre code{background:none}h3{margin:1.6em 0 .2em;font-size:1.05em;font-family:monospace}
table{border-collapse:collapse}td,th{border:1px solid #ddd;padding:.2em .6em;text-align:left;vertical-align:top}
#q{width:100%;box-sizing:border-box;font-size:15px;padding:.3em}#found a{border-bottom:1px solid #ddd;padding:.25em 0}
#found small{color:#666;display:block}a{color:#14569c}.facts{color:#555;font-size:14px}img{max-width:100%}
@media(max-width:700px){body{display:block}nav{width:auto;min-height:0}main{padding:1em}}"""
SCRIPT = """const q=document.getElementById('q'),f=document.getElementById('found');
q.addEventListener('input',()=>{const w=q.value.toLowerCase().split(/\\s+/).filter(x=>x);f.innerHTML='';if(!w.length)return;
const s=INDEX.map(([n,p,d])=>{const a=n.toLowerCase(),t=a+' '+d.toLowerCase();if(!w.every(x=>t.includes(x)))return null;
const last=a.split('.').pop();return [last===w[0]?0:last.startsWith(w[0])?1:a.includes(w[0])?2:3,a.length,n,p,d]})
.filter(x=>x).sort((x,y)=>x[0]-y[0]||x[1]-y[1]).slice(0,40);
for(const [,,n,p,d] of s){const a=document.createElement('a');a.href=p;a.textContent=n;const m=document.createElement('small');
m.textContent=d;a.appendChild(m);f.appendChild(a)}});"""


# --- Markdown ---

def inline(text):
    """Returns one line of Markdown as HTML."""
    parts = re.split(r"(`[^`]+`)", text)
    for i, part in enumerate(parts):
        if part.startswith("`") and len(part) > 2:
            parts[i] = f"<code>{html.escape(part[1:-1])}</code>"
            continue
        part = html.escape(part, quote=False)
        part = re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", r'<img alt="\1" src="\2">', part)
        part = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", part)
        parts[i] = re.sub(r"(?<![\w*(])\*([A-Za-z][^*]*[\w.])\*(?![\w*])", r"<i>\1</i>", part)
    return re.sub(r"\[((?:[^\[\]]|<code>.*?</code>)+)\]\(([^)]+)\)", lambda m: f'<a href="{link(m[2])}">{m[1]}</a>', "".join(parts))


def link(target):
    """Returns where a link between Markdown files leads on the site."""
    path, mark, anchor = target.partition("#")
    for name, source in PAGES.items():
        if path and source.endswith(path.lstrip("./")):
            return f"{name}.html{mark}{anchor}"
    found = re.fullmatch(r"(?:.*/)?([a-z]+)\.md", path)
    if found and os.path.exists(os.path.join(ROOT, "docs", "design", f"{found[1]}.md")):
        return f"design-{found[1]}.html{mark}{anchor}"
    return target


def anchor_of(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def table_row(line, tag):
    cells = [c.strip() for c in line.strip().strip("|").split("|")]
    return "<tr>" + "".join(f"<{tag}>{inline(c)}</{tag}>" for c in cells) + "</tr>"


def markdown(text):
    """Returns (HTML, titles) of the Markdown that this project's pages use."""
    out, titles, lines, i = [], [], text.split("\n"), 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            end = next((k for k in range(i + 1, len(lines)) if lines[k].startswith("```")), len(lines))
            out.append(f"<pre><code>{html.escape(chr(10).join(lines[i + 1:end]))}</code></pre>")
            i = end + 1
        elif line.startswith("    ") and line.strip() and (i == 0 or not lines[i - 1].strip()):
            block = []
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                block.append(lines[i][4:])
                i += 1
            out.append(f"<pre><code>{html.escape(chr(10).join(block).rstrip())}</code></pre>")
        elif line.startswith("#"):
            level, title = len(line) - len(line.lstrip("#")), line.lstrip("# ")
            titles.append(title)
            out.append(f'<h{level} id="{anchor_of(title)}">{inline(title)}</h{level}>')
            i += 1
        elif line.startswith("|"):
            rows = []
            while i < len(lines) and lines[i].startswith("|"):
                rows.append(lines[i])
                i += 1
            body = [r for r in rows if not re.fullmatch(r"[|\s:-]+", r) or r is rows[0] and len(rows) == 1]
            has_head = len(rows) > 1 and re.fullmatch(r"[|\s:-]+", rows[1]) and re.search(r"\w", rows[0])
            out.append("<table>" + "".join(table_row(r, "th" if has_head and k == 0 else "td") for k, r in enumerate(body)) + "</table>")
        elif re.match(r"- |\d+\. ", line):
            items = []
            while i < len(lines) and (re.match(r"- |\d+\. ", lines[i]) or lines[i].startswith("  ") and lines[i].strip()):
                if re.match(r"- |\d+\. ", lines[i]):
                    items.append(re.sub(r"^(- |\d+\. )", "", lines[i]))
                else:
                    items[-1] += " " + lines[i].strip()
                i += 1
            out.append("<ul>" + "".join(f"<li>{inline(item)}</li>" for item in items) + "</ul>")
        elif line.strip():
            block = []
            while i < len(lines) and lines[i].strip() and not re.match(r"#|```|\||- |\d+\. ", lines[i]):
                block.append(lines[i])
                i += 1
            if not block:  # a line that only looks like the start of something else
                block, i = [line], i + 1
            out.append(f"<p>{inline(' '.join(block))}</p>")
        else:
            i += 1
    return "\n".join(out), titles


# --- docstrings ---

def docstring(thing):
    """Returns a docstring as HTML: paragraphs, and indented parts and sessions as code."""
    text = inspect.getdoc(thing) or ""
    out = []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith((" ", ">>>")):
            out.append(f"<pre><code>{html.escape(inspect.cleandoc(block))}</code></pre>")
        elif block.strip() != "Example::":
            lines = block.split("\n")
            cut = next((k for k, line in enumerate(lines) if line.startswith("  ")), len(lines))
            out.append(f"<p>{inline(' '.join(lines[:cut]))}</p>")
            if cut < len(lines):
                out.append(f"<pre><code>{html.escape(inspect.cleandoc(chr(10).join(lines[cut:])))}</code></pre>")
    return "\n".join(out)


def summary(thing):
    lines = (inspect.getdoc(thing) or "").split("\n")
    if lines and "->" in lines[0] and len(lines) > 1:  # an operator's schema
        return lines[1].strip()
    return lines[0][:150]


def signature(name, thing):
    try:
        return name + str(inspect.signature(thing))
    except (TypeError, ValueError):
        first = (inspect.getdoc(thing) or "").split("\n")[0]
        return first if first.startswith(name + "(") else name


def members(module):
    """Returns the documented public names of a module with their objects."""
    for name in sorted({*dir(module), *getattr(module, "__all__", ())}, key=lambda n: (n[0].islower(), n.lower())):
        if name[0] == "_":
            continue
        try:
            thing = getattr(module, name)
        except Exception:  # a name that needs another library
            continue
        if inspect.isclass(thing) and module.__name__.endswith("functional"):
            continue  # the module's helpers
        if not inspect.ismodule(thing) and callable(thing) and inspect.getdoc(thing) and \
                (getattr(thing, "__module__", None) or "cresset").partition(".")[0] in (cresset.__name__, "cresset"):
            yield name, thing


def methods(cls):
    for name, value in sorted(vars(cls).items()):
        value = getattr(value, "__func__", value)
        if name[0] != "_" and inspect.isfunction(value) and value.__doc__:
            yield name, value


class Site:
    def __init__(self, folder):
        self.folder, self.index, self.pages = folder, [], []
        os.makedirs(folder, exist_ok=True)

    def add(self, file, title, body, group):
        self.pages.append((file, title, body, group))

    def markdown(self, name, path, group, title=None):
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            body, titles = markdown(f.read())
        body = body.replace('src="docs/', 'src="').replace('src="out/', 'src="')
        title = title or (titles[0] if titles else name)
        self.add(f"{name}.html", title, body, group)
        self.index += [(t, f"{name}.html#{anchor_of(t)}", title) for t in titles]

    def module(self, title, name):
        module = importlib.import_module(f"{cresset.__name__}.{name}" if name else cresset.__name__)
        file = f"api-{name or 'torch'}.html"
        parts, prefix = [f"<h1>{html.escape(title)}</h1>", docstring(module)], f"torch.{name}." if name else "torch."
        for member, thing in members(module):
            parts.append(f'<h3 id="{member}">{html.escape(signature(member, thing))}</h3>\n{docstring(thing)}')
            self.index.append((prefix + member, f"{file}#{member}", summary(thing)))
            if isinstance(thing, type):
                for method, value in methods(thing):
                    parts.append(f'<h3 id="{member}.{method}">{html.escape(member + "." + signature(method, value))}</h3>\n'
                                 f"{docstring(value)}")
                    self.index.append((f"{prefix}{member}.{method}", f"{file}#{member}.{method}", summary(value)))
        self.add(file, title, "\n".join(parts), "Modules")

    def tensor(self):
        parts = ["<h1>Tensor</h1>", docstring(cresset.Tensor)]
        for name in sorted(n for n in dir(cresset.Tensor) if n[0] != "_"):
            thing = inspect.getattr_static(cresset.Tensor, name)
            if inspect.getdoc(thing):
                parts.append(f'<h3 id="{name}">Tensor.{html.escape(name)}</h3>\n{docstring(thing)}')
                self.index.append((f"torch.Tensor.{name}", f"api-Tensor.html#{name}", summary(thing)))
        self.add("api-Tensor.html", "Tensor", "\n".join(parts), "Modules")

    def operators(self):
        files = {}
        for r in _C._records():
            if not r["name"].startswith("_") and set(r["forms"]) - {"copied"}:
                files.setdefault(r["file"].removesuffix(".op"), []).append(r)
        for file, records in sorted(files.items()):
            parts = [f"<h1>Operators: {file}</h1>"]
            for r in records:
                name = r["name"] + ("." + r["overload"] if r["overload"] else "")
                about = "; ".join(f"{k}: {inline(v)}" for k, v in facts(r) if v)
                expression, _, result = r["example"].partition(" -> ")
                example = f"<pre><code>&gt;&gt;&gt; {html.escape(expression)}\n{html.escape(result)}</code></pre>" if result else ""
                parts.append(f'<h3 id="{name}">{html.escape(r["schema"])}</h3>\n<p>{inline(r["doc"])}</p>{example}'
                             f'<p class="facts">{about}</p>')
                self.index.append((name, f"op-{file}.html#{name}", r["doc"]))
            self.add(f"op-{file}.html", file, "\n".join(parts), "Operators")

    def navigation(self):
        out, group = ['<input id="q" placeholder="search"><div id="found"></div>'], None
        for file, title, _, of in self.pages:
            if of != group:
                out.append(f"<b>{of}</b>")
                group = of
            out.append(f'<a href="{file}">{html.escape(title)}</a>')
        return "\n".join(out)

    def write(self):
        import shutil
        shutil.copytree(os.path.join(ROOT, "docs", "pictures"), os.path.join(self.folder, "pictures"), dirs_exist_ok=True)
        navigation = self.navigation()
        for file, title, body, _ in self.pages:
            with open(os.path.join(self.folder, file), "w", encoding="utf-8") as f:
                f.write(f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
                        f'<title>{html.escape(title)} - Cresset</title><link rel="stylesheet" href="style.css">\n<nav>{navigation}</nav>\n'
                        f'<main>{body}</main><script src="search.js"></script></html>\n')
        with open(os.path.join(self.folder, "style.css"), "w", encoding="utf-8") as f:
            f.write(STYLE)
        with open(os.path.join(self.folder, "search.js"), "w", encoding="utf-8") as f:
            f.write(f"const INDEX={json.dumps(self.index)};\n{SCRIPT}\n")


def make(folder):
    site = Site(folder)
    for name, path in PAGES.items():
        site.markdown(name, path, "Guide", {"index": "Cresset"}.get(name))
    site.tensor()
    for title, name in MODULES.items():
        site.module(title, name)
    site.operators()
    for path in sorted(os.listdir(os.path.join(ROOT, "docs", "design"))):
        site.markdown(f"design-{path.removesuffix('.md')}", f"docs/design/{path}", "Design")
    site.write()
    return site


if __name__ == "__main__":
    made = make(sys.argv[1])
    print(f"{sys.argv[1]}/index.html: {len(made.pages)} pages, {len(made.index)} names to search")
