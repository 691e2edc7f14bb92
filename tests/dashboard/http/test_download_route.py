"""Downloads: what is given out, and how."""

from __future__ import annotations

from shoal.runs import made_files
from shoal.runs.documents import write_json
from support.browser import Server
from support.dashboard.http_client import ask


def test_plotly_is_sent_small_and_kept_by_browsers(unlocked: Server) -> None:
    from shoal.dashboard.parts.places import PLOTLY_ADDRESS

    found = ask(unlocked, "/" + PLOTLY_ADDRESS, Accept_Encoding="gzip")
    assert found.status == 200
    assert found.headers["content-encoding"] == "gzip"
    assert "immutable" in found.headers["cache-control"]
    assert len(found.body) < 2_000_000
    assert ask(unlocked, "/" + PLOTLY_ADDRESS, If_None_Match=found.headers["etag"]).status == 304
    plain = ask(unlocked, "/api/plotly.js")
    assert plain.headers["cache-control"] == "no-cache"
    assert b"plotly.js v" in plain.body[:200]


def test_predictions_are_an_attachment_and_nothing_else_is_given_out(unlocked: Server) -> None:
    job = "0123456789abcdef01234567"
    folder = unlocked.home / "jobs" / "predict" / job
    folder.mkdir(parents=True)
    (folder / "predictions.csv").write_text("prediction\n1\n")
    (folder / "config.json").write_text("{}")
    found = ask(unlocked, f"/api/predictions/{job}")
    assert found.body == b"prediction\n1\n"
    assert found.headers["content-disposition"] == 'attachment; filename="predictions.csv"'
    assert found.headers["content-type"].startswith("text/csv")
    for wrong in ("f" * 24, job.upper(), f"..%2fpredict%2f{job}", f"{job}%2fconfig.json", "%2e%2e", f"{job}%0a"):
        assert ask(unlocked, f"/api/predictions/{wrong}").status in (400, 404), wrong


def test_predictions_have_the_marks_of_their_table_if_that_is_asked_for(unlocked: Server) -> None:
    job = "456789abcdef012301234567"
    folder = unlocked.home / "jobs" / "predict" / job
    folder.mkdir(parents=True)
    (folder / "predictions.csv").write_text('ort,prediction\n"a,b",1.5\n')
    assert ask(unlocked, f"/api/predictions/{job}?like=table").body == b'ort,prediction\r\n"a,b",1.5\r\n'
    said = {"rows": 1, "target": "y", "out": "", "table": {"delimiter": ";", "decimal": ",", "encoding": "cp1252"}}
    write_json(folder / "result.json", said)
    found = ask(unlocked, f"/api/predictions/{job}?like=table")
    assert found.body == b"ort;prediction\r\na,b;1,5\r\n"
    assert found.headers["content-disposition"] == 'attachment; filename="predictions.csv"'


def test_predictions_that_are_not_what_was_made_are_refused(unlocked: Server) -> None:
    job = "89abcdef0123456701234567"
    folder = unlocked.home / "jobs" / "predict" / job
    folder.mkdir(parents=True)
    path = folder / "predictions.csv"
    path.write_text("prediction\n1\n")
    made_files.seal(folder, [path.name])
    assert ask(unlocked, f"/api/predictions/{job}").body == b"prediction\n1\n"
    path.write_text("prediction\n7\n")
    found = ask(unlocked, f"/api/predictions/{job}")
    assert (found.status, b"'predictions.csv' is damaged" in found.body) == (409, True)
    assert ask(unlocked, f"/api/predictions/{job}").status == 404
