"""Adjusts generated requests for rules that Schemathesis cannot derive from the schemas, and for stateful keys."""

import re
import uuid

import schemathesis

WELL_FORMED_KEY = re.compile(r'[!#-~]([ -~]*[!-~])?|"([ !#-\[\]-~]|\\["\\])+"')


def reads_one_way(value):
    """Rejects `__proto__` and integers that a double cannot hold (RFC 7493): both get 400, which other tests cover."""
    if isinstance(value, dict):
        return "__proto__" not in value and all(reads_one_way(inner) for inner in value.values())
    if isinstance(value, list):
        return all(reads_one_way(inner) for inner in value)
    return not isinstance(value, int) or abs(value) <= 2**53


@schemathesis.hook
def filter_body(context, body):
    return reads_one_way(body)


def is_valid(case):
    return case.meta is None or case.meta.generation.mode.is_positive


def settle_query(query):
    """Makes a query valid: removes cursors, which only the service can issue, and repeated sort fields."""
    query.pop("cursor", None)
    if isinstance(query.get("sort"), str):
        fields = {name.lstrip("-"): name for name in reversed(query["sort"].split(","))}
        query["sort"] = ",".join(reversed(fields.values()))


def settle_batch(body):
    """Makes the items valid: their schema does not state which members a method requires, nor the fields of a row."""
    deletion = {"method": "DELETE", "id": 10**9, "ifMatch": "*"}
    body["items"] = [{**deletion, "collection": item["collection"]} for item in body["items"]]


@schemathesis.hook
def before_call(context, case, kwargs):
    # Only full responses are checked; partial responses have their own test (test/http/partial-response-everywhere.slow.test.ts).
    query = case.query or {}
    if isinstance(query.get("fields"), str):
        del query["fields"]
    if is_valid(case):
        settle_query(query)
        if case.path == "/api/batch":
            settle_batch(case.body)
    # The run must not revoke, rotate or change the client whose token it uses.
    if (case.path_parameters or {}).get("id") == "scripts":
        case.path_parameters["id"] = "nobody"
    headers = case.headers or {}
    for name, value in list(headers.items()):
        # An id from a response may be a number, which the tool would send unconverted, but a header must be a string.
        if isinstance(value, (int, float)):
            headers[name] = str(value)
        # Reusing a key with a different body gives 422.
        elif name.lower() == "idempotency-key" and WELL_FORMED_KEY.fullmatch(value):
            headers[name] = str(uuid.uuid4())
