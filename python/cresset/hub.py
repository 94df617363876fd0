"""Models from GitHub repositories and files from the network.

A repository offers models as functions of its hubconf.py.  Archives and files are cached under
get_dir().
"""
import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
import warnings
import zipfile
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
           "set_dir"]

ENV_GITHUB_TOKEN = "GITHUB_TOKEN"
ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
READ_DATA_CHUNK = 128 * 1024
# The digits of the SHA-256 that the name of a file ends with: "resnet18-f37072fd.pth".
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")

_TRUSTED_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")
_hub_dir = None


# --- folders ---

def _get_torch_home():
    cache = os.environ.get(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.environ.get(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def get_dir():
    """Returns the folder of repositories and checkpoints: set_dir's, else $TORCH_HOME/hub."""
    if os.environ.get("TORCH_HUB"):
        warnings.warn("TORCH_HUB is deprecated, please use env TORCH_HOME instead", stacklevel=2)
    return _hub_dir if _hub_dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d):
    """Sets the folder of repositories and checkpoints."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


# --- repositories on GitHub ---

def _headers():
    headers = {"Accept": "application/vnd.github.v3+json"}
    token = os.environ.get(ENV_GITHUB_TOKEN)
    if token is not None:
        headers["Authorization"] = f"token {token}"
    return headers


def _read_url(url):
    with urlopen(url) as answer:
        return answer.read().decode(answer.headers.get_content_charset("utf-8"))


def _parse_repo_info(github):
    """Returns owner, name and branch of "owner/name" or "owner/name:branch"."""
    repository, colon, ref = github.partition(":")
    owner, name = repository.split("/")
    return owner, name, ref if colon else _default_branch(owner, name)


def _default_branch(owner, name):
    try:
        with urlopen(f"https://github.com/{owner}/{name}/tree/main/"):
            return "main"
    except HTTPError as error:
        if error.code == 404:
            return "master"
        raise
    except URLError as error:
        for ref in ("main", "master"):
            if os.path.exists(f"{get_dir()}/{owner}_{name}_{ref}"):
                return ref
        raise RuntimeError("It looks like there is no internet connection and the repo could not "
                           f"be found in the cache ({get_dir()})") from error


def _check_branch(owner, name, ref):
    """Raises when the repository has no such branch or tag; it may then be a fork's commit."""
    import json
    for kind in ("branches", "tags"):
        page = 0
        while True:
            page += 1
            url = f"https://api.github.com/repos/{owner}/{name}/{kind}?per_page=100&page={page}"
            found = json.loads(_read_url(Request(url, headers=_headers())))
            if any(item["name"] == ref or item["commit"]["sha"].startswith(ref) for item in found):
                return
            if not found:
                break
    raise ValueError(f"Cannot find {ref} in https://github.com/{owner}/{name}. If it's a commit "
                     "from a forked repo, please call hub.load() with forked repo directly.")


def _trust_key(owner, name):
    return f"{owner}_{name}"


def _check_trust(owner, name, trust_repo):
    """Asks, warns or refuses for a repository that has not been trusted; remembers the answer."""
    known_file = os.path.join(get_dir(), "trusted_list")
    known = set()
    if os.path.exists(known_file):
        with open(known_file) as file:
            known = {line.strip() for line in file}
    key = _trust_key(owner, name)
    is_known = key in known or owner in _TRUSTED_OWNERS
    if trust_repo is False or (trust_repo == "check" and not is_known):
        _ask_for_trust(owner, name)
    if key not in known and (trust_repo is True or not is_known):
        with open(known_file, "a") as file:
            file.write(key + "\n")


def _ask_for_trust(owner, name):
    answer = input(f"The repository {owner}_{name} does not belong to the list of trusted "
                   "repositories and as such cannot be downloaded. Do you trust this repository "
                   "and wish to add it to the trusted list of repositories (y/N)?")
    if answer.lower() not in ("y", "yes"):
        if answer.lower() in ("", "n", "no"):
            raise Exception("Untrusted repository.")
        raise ValueError(f"Unrecognized response {answer}.")


def _extract(archive, folder):
    """Extracts an archive that has one folder; refuses paths that leave it.  Returns its path."""
    with zipfile.ZipFile(archive) as files:
        for entry in files.namelist():
            target = os.path.realpath(os.path.join(folder, entry))
            if os.path.commonpath([target, os.path.realpath(folder)]) != os.path.realpath(folder):
                raise ValueError(f"Archive entry {entry!r} is outside of the archive's folder")
        top = files.infolist()[0].filename.rstrip("/")
        files.extractall(folder)
    return os.path.join(folder, top)


def _get_cache_or_reload(github, force_reload, trust_repo, calling_fn, verbose=True,
                         skip_validation=False):
    """Returns the folder of a repository, which is downloaded unless it is cached."""
    hub_dir = get_dir()
    os.makedirs(hub_dir, exist_ok=True)
    owner, name, ref = _parse_repo_info(github)
    folder = os.path.join(hub_dir, "_".join([owner, name, ref.replace("/", "_")]))
    _check_trust(owner, name, trust_repo)
    if not force_reload and os.path.exists(folder):
        if verbose:
            sys.stderr.write(f"Using cache found in {folder}\n")
        return folder
    if not skip_validation:
        _check_branch(owner, name, ref)
    _download_repository(owner, name, ref, hub_dir, folder, verbose)
    return folder


def _download_repository(owner, name, ref, hub_dir, folder, verbose):
    url = f"https://github.com/{owner}/{name}/zipball/{ref}"
    with tempfile.TemporaryDirectory(dir=hub_dir) as place:
        archive = os.path.join(place, "archive.zip")
        sys.stdout.write(f'Downloading: "{url}" to {archive}\n')
        download_url_to_file(url, archive, progress=False)
        extracted = _extract(archive, place)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(extracted, folder)


# --- hubconf.py ---

@contextlib.contextmanager
def _on_path(folder):
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _hubconf(folder):
    """Returns the executed hubconf.py of a repository."""
    from importlib.util import module_from_spec, spec_from_file_location
    spec = spec_from_file_location(MODULE_HUBCONF, os.path.join(folder, MODULE_HUBCONF))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check_dependencies(module):
    from importlib.util import find_spec
    missing = [name for name in getattr(module, VAR_DEPENDENCY, None) or () if find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")


def _entry(module, model):
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    _check_dependencies(module)
    function = getattr(module, model, None)
    if function is None or not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def list(github, force_reload=False, skip_validation=False, trust_repo="check", verbose=True):
    """Returns the names of the models of a repository."""
    folder = _get_cache_or_reload(github, force_reload, trust_repo, "list", verbose=verbose,
                                  skip_validation=skip_validation)
    with _on_path(folder):
        module = _hubconf(folder)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo="check"):
    """Returns the documentation of a model."""
    folder = _get_cache_or_reload(github, force_reload, trust_repo, "help", verbose=True,
                                  skip_validation=skip_validation)
    with _on_path(folder):
        return _entry(_hubconf(folder), model).__doc__


def load(repo_or_dir, model, *args, source="github", trust_repo="check", force_reload=False,
         verbose=True, skip_validation=False, **kwargs):
    """Calls a model's function with the further arguments and returns its result."""
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        repo_or_dir = _get_cache_or_reload(repo_or_dir, force_reload, trust_repo, "load",
                                           verbose=verbose, skip_validation=skip_validation)
    return _load_local(repo_or_dir, model, *args, **kwargs)


def _load_local(hubconf_dir, model, *args, **kwargs):
    with _on_path(hubconf_dir):
        return _entry(_hubconf(hubconf_dir), model)(*args, **kwargs)


# --- files ---

class _Faketqdm:
    """A line on stderr that shows how much has been done, as the package tqdm does."""

    def __init__(self, iterable=None, desc=None, total=None, disable=False, **unused):
        self.iterable = iterable
        self.total = len(iterable) if total is None and hasattr(iterable, "__len__") else total
        self.shown, self.read = not disable, 0

    def __iter__(self):
        with self:
            for item in self.iterable:
                yield item
                self.update(1)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def update(self, count=1):
        self.read += count
        if self.shown:
            size = f"{100 * self.read / self.total:.1f}%" if self.total else f"{self.read:.1f} bytes"
            sys.stderr.write("\r" + size)
            sys.stderr.flush()

    def close(self):
        if self.shown:
            sys.stderr.write("\n")


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Downloads a file.  `dst` appears only when the file is complete and its SHA-256 begins with
    `hash_prefix`."""
    dst = os.path.expanduser(dst)
    answer = urlopen(Request(url, headers={"User-Agent": "torch.hub"}))
    length = answer.headers.get("Content-Length")
    partial = tempfile.NamedTemporaryFile(dir=os.path.dirname(dst) or ".", suffix=".partial", delete=False)
    digest = hashlib.sha256()
    try:
        with answer, partial:
            bar = _Faketqdm(total=int(length) if length else None, disable=not progress)
            while chunk := answer.read(READ_DATA_CHUNK):
                partial.write(chunk)
                digest.update(chunk)
                bar.update(len(chunk))
            bar.close()
        found = digest.hexdigest()
        if hash_prefix is not None and found[:len(hash_prefix)] != hash_prefix:
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial.name, 0o666 & ~mask)  # temporary files are readable by their owner only
        os.replace(partial.name, dst)
    finally:
        if os.path.exists(partial.name):
            os.remove(partial.name)


def _load_zipped(path, folder, map_location, weights_only):
    """Loads the only file of a zip archive that is not a checkpoint itself."""
    from .serialization import load as load_checkpoint
    with zipfile.ZipFile(path) as files:
        entries = files.infolist()
        if len(entries) != 1:
            raise RuntimeError("Only one file(not dir) is allowed in the zipfile")
        inside = files.extract(entries[0], folder)
    return load_checkpoint(inside, map_location=map_location, weights_only=weights_only)


def _is_zipped_checkpoint(path):
    """Returns whether the file is a zip archive around a checkpoint of the old format."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as files:
        return not any(name.endswith("/data.pkl") for name in files.namelist())


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True, check_hash=False,
                             file_name=None, weights_only=False):
    """Loads a checkpoint, which is downloaded unless `model_dir` has it."""
    if os.environ.get("TORCH_MODEL_ZOO"):
        warnings.warn("TORCH_MODEL_ZOO is deprecated, please use env TORCH_HOME instead", stacklevel=2)
    model_dir = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(model_dir, exist_ok=True)
    name = file_name if file_name is not None else os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        digits = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, digits.group(1) if digits else None, progress=progress)
    if _is_zipped_checkpoint(path):
        return _load_zipped(path, model_dir, map_location, weights_only)
    from .serialization import load as load_checkpoint
    return load_checkpoint(path, map_location=map_location, weights_only=weights_only)
