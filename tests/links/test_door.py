"""Doors, tokens and key files: what opens, what stays shut, and the sentence that says why."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tightwire.algebra.errors import AccessError
from tightwire.engines.keyring import make_keys
from tightwire.links import access
from tightwire.links.access import Access
from tightwire.links.door import embedded_door, own_door
from tightwire.links.tokens import Token, Tokens, fresh_token, parse_tokens, read_tokens

PAIR = {"certificate_file": "server.pem", "key_file": "server-key.pem"}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder, run="mnist", hosts=["localhost", "127.0.0.1"], days=1.0)
    return folder


@pytest.mark.parametrize(
    ("listen", "given", "says"),
    [
        ("grpc://0.0.0.0:7000", {"token_file": "tokens"}, "readably over the network"),
        ("grpc+tls://0.0.0.0:7000", PAIR, "let everybody in"),
        ("grpc+tls://10.0.0.1:7000", {"token_file": "tokens"}, "needs --cert and --key"),
        ("grpc+tls://127.0.0.1:0", {}, "needs --cert and --key"),
        ("http://10.0.0.1", {"token_file": "tokens"}, "write grpc"),
        ("grpc+tls://10.0.0.1:1", {"token_file": "nowhere", **PAIR}, "nowhere"),
    ],
)  # fmt: skip
def test_a_door_that_strangers_could_walk_through_stays_shut(
    keys: Path, listen: str, given: dict[str, str], says: str
) -> None:
    files = {name: str(keys / file) for name, file in given.items()}
    with pytest.raises(AccessError, match=says):
        own_door(listen, **{"token_file": None, **files})  # type: ignore[arg-type]


def test_doors_that_open(keys: Path) -> None:
    assert own_door("grpc://127.0.0.1:0", token_file=None).tokens == ()
    assert own_door("grpc://0.0.0.0:0", token_file=None, insecure=True).certificate == b""
    whole = own_door(
        "grpc+tls://0.0.0.0:0", token_file=str(keys / "tokens"), certificate_file=str(keys / "server.pem"),
        key_file=str(keys / "server-key.pem"), client_authority_file=str(keys / "ca.pem"),
    )  # fmt: skip
    assert len(whole.tokens) == 2 and whole.client_authority == (keys / "ca.pem").read_bytes()
    assert whole.key.decode() not in repr(whole) and whole.tokens[0].secret not in repr(whole)


def test_the_door_of_a_worker_that_keeps_a_server(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert embedded_door(Access(), machines=1).listen == "grpc://127.0.0.1:0"
    monkeypatch.setenv("TIGHTWIRE_ADDRESS", "10.9.8.7")
    assert embedded_door(Access(keys="none"), machines=2).listen == "grpc://10.9.8.7:0"
    thrown = embedded_door(Access(keys="throw-away"), machines=2)
    assert thrown.listen == "grpc+tls://10.9.8.7:0" and thrown.certificate and thrown.hands_out
    files = [str(keys / name) for name in ("mnist.token", "server.pem", "server-key.pem", "ca.pem")]
    given = embedded_door(Access((), *files), machines=2)
    assert not given.hands_out and given.tokens[0].run == "" and given.client_authority
    with pytest.raises(AccessError, match="without --cert --key --ca would be open"):
        embedded_door(Access((), files[0]), machines=2)


def test_servers_elsewhere_find_a_process_whose_workers_are_all_on_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {"127.0.0.1": "127.0.0.1", "node7": "10.9.8.7", "node8": "10.9.9.9"}
    monkeypatch.setattr(access, "_way_to", lambda host, port: ways[host])
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    servers = ("grpc://127.0.0.1:7000", "grpc://node7:7000")
    assert access.own_address() == access.own_address(servers[:1]) == "127.0.0.1"
    assert embedded_door(Access(servers, keys="none"), machines=2).listen == "grpc://10.9.8.7:0"
    monkeypatch.setenv("MASTER_ADDR", "node8")
    assert access.own_address(servers) == "10.9.9.9", "workers come there too"


def test_a_place_is_deserted_when_its_machine_says_so() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        where = f"grpc://127.0.0.1:{listening.getsockname()[1]}"
        listening.listen()
        assert not access.is_deserted(where)
    assert access.is_deserted(where)
    assert not access.is_deserted("grpc://no.such.host.invalid:7000"), "nobody knows"


def test_the_environment_says_the_same_as_the_options() -> None:
    told = Access.told_by({"TIGHTWIRE_SERVER": "grpc://a:1,grpc://b:2", "TIGHTWIRE_CA": "ca.pem"})
    assert told == Access(("grpc://a:1", "grpc://b:2"), authority_file="ca.pem")
    with pytest.raises(AccessError, match="given, throw-away or none"):
        Access.told_by({"TIGHTWIRE_KEYS": "yes"})


def test_a_folder_of_keys_grows_by_runs_and_is_its_owners(keys: Path) -> None:
    before = (keys / "server.pem").read_bytes()
    made = make_keys(keys, run="cifar", hosts=["elsewhere"], days=1.0)
    assert {path.name for path in made} == {"tokens", "cifar.token", "cifar.watch.token"}
    assert (keys / "server.pem").read_bytes() == before
    tokens = read_tokens(str(keys / "tokens"))
    assert [(t.run, t.may) for t in tokens] == [
        ("mnist", "write"), ("mnist", "read"), ("cifar", "write"), ("cifar", "read"),
    ]  # fmt: skip
    assert len({t.secret for t in tokens}) == 4
    assert Access(token_file=str(keys / "cifar.token")).token() == tokens[2]
    for name in ("tokens", "ca-key.pem", "server-key.pem", "mnist.token"):
        assert os.stat(keys / name).st_mode & 0o077 == 0, name
    with pytest.raises(AccessError, match="has a token for cifar already"):
        make_keys(keys, run="cifar", hosts=[], days=1.0)
    with pytest.raises(AccessError, match="no spaces"):
        make_keys(keys, run="a b", hosts=[], days=1.0)


@pytest.mark.parametrize("text", ["", "# nothing\n", "run write", f"run own {'0' * 64}", "run write short"])
def test_files_that_hold_no_tokens_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(AccessError) as caught:
        parse_tokens(text, "t")
    assert "tightwire keys makes such files" in str(caught.value) and "short" not in str(caught.value)


def test_every_token_is_compared_whatever_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac  # noqa: PLC0415

    compared: list[Any] = []
    really = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(b) or really(a, b))
    known = [fresh_token(str(number)) for number in range(3)]
    tokens = Tokens(known)
    assert tokens.find(f"Bearer {known[0].secret}".encode()) == known[0] and len(compared) == 3
    assert tokens.find(b"Bearer ") is None and tokens.find(known[0].secret.encode()) is None
    assert isinstance(known[0], Token) and known[0].secret not in repr(known[0])
