"""The errors of Discord's REST, as one exception with a status and the JSON body that bots receive.

Codes: https://discord.com/developers/docs/topics/opcodes-and-status-codes#json-json-error-codes
"""

from typing import Any


class ApiError(Exception):
    """A request that Discord would refuse. status is the HTTP status, body the JSON object sent with it."""

    def __init__(self, status: int, code: int, message: str, **extra: Any) -> None:
        super().__init__(f"{status} ({code}): {message}")
        self.status = status
        self.body: dict[str, Any] = {"message": message, "code": code, **extra}


def unauthorized() -> ApiError:
    return ApiError(401, 0, "401: Unauthorized")


def not_found() -> ApiError:
    return ApiError(404, 0, "404: Not Found")


def unknown(what: str) -> ApiError:
    """what is a key of UNKNOWN, such as "Channel"."""
    return ApiError(404, UNKNOWN[what], f"Unknown {what}")


UNKNOWN = {
    "Application": 10002,
    "Channel": 10003,
    "Guild": 10004,
    "Member": 10007,
    "Message": 10008,
    "Role": 10011,
    "User": 10013,
    "Webhook": 10015,
    "interaction": 10062,
    "application command": 10063,
}


def missing_access() -> ApiError:
    return ApiError(403, 50001, "Missing Access")


def missing_permissions() -> ApiError:
    return ApiError(403, 50013, "Missing Permissions")


def locked() -> ApiError:
    return ApiError(400, 160005, "Thread is locked")


def archived() -> ApiError:
    return ApiError(400, 50083, "Thread is archived")


def invalid_form(field: str, code: str, message: str) -> ApiError:
    """A field that breaks its rules: 400 with code 50035 and the field's own error in Discord's nested form."""
    detail: dict[str, Any] = {"_errors": [{"code": code, "message": message}]}
    for name in reversed(field.split(".")):
        detail = {name: detail}
    return ApiError(400, 50035, "Invalid Form Body", errors=detail)
