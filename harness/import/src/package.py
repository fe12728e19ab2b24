"""Reads the archive of a package, a source distribution or a wheel: one JSON request on standard input, one JSON object per line on standard output.

No code of the package is run, installed or written to disk: the archive is read as data.
"""
import base64
import hashlib
import io
import json
import os
import re
import ssl
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
import zlib

MAX_BYTES = 64 << 20
MAX_FILES = 5000
SOURCE = (".tar.gz",)
WHEEL = ("-py3-none-any.whl", "-py2.py3-none-any.whl")
KINDS = {SOURCE: "source distribution", WHEEL: "wheel for every machine"}
PAGE = "application/vnd.pypi.simple.v1+json"


def say(**row):
    print(json.dumps(row), flush=True)


class Refused(Exception):
    pass


def pip_setting(name):
    """The index that pip uses, from its variable or its configuration."""
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if value:
        return value
    try:
        from pip._internal.configuration import Configuration

        settings = Configuration(isolated=False)
        settings.load()
        for key, value in settings.items():
            if isinstance(value, dict):
                value = value.get("global." + name)
                if value:
                    return value
            elif key == "global." + name:
                return value
    except Exception:
        pass
    return None


def index_url():
    url = pip_setting("index-url")
    if url:
        return url
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        raise Refused("this Python has no pip, so the package index is unknown: set PIP_INDEX_URL") from None
    return PyPI.simple_url


def get(url, accept):
    bundle = pip_setting("cert") or os.environ.get("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=bundle if bundle and os.path.exists(bundle) else None)
    headers = {"Accept": accept, "User-Agent": "clawrl-import"}
    parts = urllib.parse.urlsplit(url)
    if parts.username:
        account = urllib.parse.unquote(parts.username) + ":" + urllib.parse.unquote(parts.password or "")
        headers["Authorization"] = "Basic " + base64.b64encode(account.encode()).decode()
        url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, context=context, timeout=60) as reply:
        body = reply.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise Refused(f"the answer has more than {MAX_BYTES} bytes")
        return reply.geturl(), body


def fetched(name, version, endings):
    """The archive, its name and its digest from the index."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    base, page = get(index_url().rstrip("/") + "/" + normal + "/", PAGE)
    try:
        files = json.loads(page)["files"]
    except (ValueError, KeyError):
        raise Refused("the package index does not support JSON (PEP 691): name a local archive") from None
    wanted = [normal, normal.replace("-", "_"), name]
    names = {f"{stem}-{version}{ending}" for stem in wanted for ending in endings}
    found = [file for file in files if file["filename"] in names or file["filename"].lower() in names]
    if not found:
        raise Refused(f"the package index has no {KINDS[endings]} of {name} {version}")
    digest = found[0].get("hashes", {}).get("sha256")
    if not digest:
        raise Refused("the package index has no SHA-256 of the archive")
    _, body = get(urllib.parse.urljoin(base, found[0]["url"]), "*/*")
    if hashlib.sha256(body).hexdigest() != digest:
        raise Refused("the SHA-256 of the archive is not the one in the package index")
    return found[0]["filename"], body


def read(request):
    given = request.get("sdist") or request.get("wheel")
    if given:
        with open(given, "rb") as file:
            name, body = os.path.basename(given), file.read(MAX_BYTES + 1)
    else:
        name, body = fetched(request["name"], request["version"], WHEEL if request.get("kind") == "wheel" else SOURCE)
    say(archive=name, sha256=hashlib.sha256(body).hexdigest())
    try:
        left, count = MAX_BYTES, 0
        for path, mode, size, content in (wheel_files if name.endswith(".whl") else source_files)(body):
            if not path or any(part in ("", ".", "..") for part in path.split("/")):
                continue
            left, count = left - size, count + 1
            if left < 0 or count > MAX_FILES:
                raise Refused(f"the archive holds more than {MAX_BYTES} bytes or {MAX_FILES} files")
            say(path=path, mode=0o755 if mode & 0o100 else 0o644, content=base64.b64encode(content()).decode())
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise Refused(f"the archive cannot be read: {error}") from None
    say(end=True)


def source_files(body):
    """Regular files, without the top-level folder in their paths. Links and devices are skipped."""
    archive = tarfile.open(fileobj=io.BytesIO(body), mode="r:gz")
    for member in archive:
        path = member.name.split("/", 1)[1] if "/" in member.name else ""
        if member.isfile():
            yield path, member.mode, member.size, lambda: archive.extractfile(member).read()


def wheel_files(body):
    archive = zipfile.ZipFile(io.BytesIO(body))
    for member in archive.infolist():
        if not member.is_dir():
            yield member.filename, member.external_attr >> 16, member.file_size, lambda: archive.read(member)


def main():
    try:
        read(json.load(sys.stdin))
    except Refused as refused:
        say(refused=str(refused))
    except OSError as error:
        say(refused=f"{type(error).__name__}: {error}")


main()
