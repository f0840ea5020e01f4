"""What Schemathesis cannot know of the service: rules that no schema can say of any depth, and keys that are state."""

import uuid

import schemathesis


def reads_one_way(value):
    """No prototype is named and no integer is beyond what a double holds (RFC 7493): both are 400, and tests have them."""
    if isinstance(value, dict):
        return "__proto__" not in value and all(reads_one_way(inner) for inner in value.values())
    if isinstance(value, list):
        return all(reads_one_way(inner) for inner in value)
    return not isinstance(value, int) or abs(value) <= 2**53


@schemathesis.hook
def filter_body(context, body):
    return reads_one_way(body)


@schemathesis.hook
def before_call(context, case, kwargs):
    headers = case.headers or {}
    for name, value in list(headers.items()):
        # An id taken from an answer may be a number, which the tool would send as it is; a header is text.
        if isinstance(value, (int, float)):
            headers[name] = str(value)
        # A key that was used before belongs to the body that it was sent with (422).
        elif name.lower() == "idempotency-key" and value.isascii() and value.isalnum():
            headers[name] = str(uuid.uuid4())
