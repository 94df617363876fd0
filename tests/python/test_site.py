"""The documentation site (tools/docs_site.py): pages, links and the search index."""
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "tools" / "docs_site.py", folder], check=True, timeout=120, capture_output=True)
    return folder


def anchors(text):
    return set(re.findall(r'id="([^"]+)"', text))


def test_the_index_leads_to_names(site):
    index = json.loads((site / "search.js").read_text().partition("=")[2].partition(";\n")[0])
    known = {page.name: anchors(page.read_text()) for page in site.glob("*.html")}
    assert len(index) > 3000
    for name, target, _ in index:
        page, _, anchor = target.partition("#")
        assert anchor in known[page], (name, target)
    names = {name for name, _, _ in index}
    assert {"torch.nn.Linear", "torch.optim.Adam", "torch.utils.data.DataLoader", "torch.nn.functional.cross_entropy", "torch.Tensor.sum",
            "torch.cat", "logaddexp2", "torch.optim.lr_scheduler.StepLR", "Training", "torch.nn.Module.state_dict"} <= names


def test_links_between_pages_exist(site):
    pages = {page.name: page.read_text() for page in site.glob("*.html")}
    assert len(pages) > 70
    for name, text in pages.items():
        for target in re.findall(r'href="([^":]+\.html)', text) + re.findall(r'src="([^":]+)"', text):
            assert (site / target).exists(), (name, target)


def test_pages_have_docstrings_sizes_and_examples(site):
    nn = (site / "api-nn.html").read_text()
    assert "Linear(in_features, out_features, bias=True" in nn and "input (*, in_features)" in nn and "&gt;&gt;&gt; nn.Linear(3, 4)" in nn
    assert "logaddexp2(Tensor self, Tensor other)" in (site / "op-pointwise.html").read_text()
    tutorial = (site / "tutorial.html").read_text()
    assert "<h1" in tutorial and "&gt;&gt;&gt; import cresset as torch" in tutorial and "```" not in tutorial
