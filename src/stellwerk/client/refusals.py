"""What the server refuses, as an exception that carries all problems and an exit code."""

import msgspec

from stellwerk.client.wire import ProblemReport
from stellwerk.core.model.errors import Problem, StellwerkError


class ApiError(StellwerkError):
    """The server refused: `problems` says why, `exit_code` is for a command line."""

    def __init__(self, report: ProblemReport) -> None:
        detail = report.detail or report.title or f"the server answered {report.status}"
        super().__init__(report.problems or [Problem(report.code or "server/error", detail)])
        self.status = report.status
        self.code = report.code or self.problems[0].code
        self.exit_code = report.exit


def refusal(status: int, body: bytes) -> ApiError:
    """Reads a problem report; an answer that is none is quoted."""
    try:
        report = msgspec.json.decode(body, type=ProblemReport)
    except msgspec.MsgspecError:
        said = body[:500].decode(errors="replace").strip()
        report = ProblemReport(detail=f"the server answered {status}: {said}")
    report.status = report.status or status
    return ApiError(report)
