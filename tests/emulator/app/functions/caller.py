"""Calls its siblings by the Lambda API, and keeps something in the table."""

import json
import os

import boto3

functions = boto3.client("lambda")
table = boto3.resource("dynamodb").Table(os.environ["TABLE"])


def handler(event, context):
    do = json.loads(event["body"])
    return {"statusCode": 200, "body": json.dumps(ACTIONS[do.pop("do")](**do))}


def invoke(payload, name=None, kind="RequestResponse"):
    answer = functions.invoke(
        FunctionName=name or os.environ["PLAIN"], InvocationType=kind, Payload=json.dumps(payload)
    )
    said = answer["Payload"].read()
    return {
        "status": answer["StatusCode"],
        "error": answer.get("FunctionError"),
        "payload": json.loads(said) if said else None,
    }


def missing():
    try:
        functions.invoke(FunctionName="nobody", Payload="{}")
    except functions.exceptions.ResourceNotFoundException as error:
        return str(error)


def stream(payload, name=None, log=False):
    answer = functions.invoke_with_response_stream(
        FunctionName=name or os.environ["STREAMING"], Payload=json.dumps(payload)
    )
    events = []
    for event in answer["EventStream"]:
        events.append(event)
        if log and "PayloadChunk" in event:
            print("got", event["PayloadChunk"]["Payload"].decode(), flush=True)
    return {
        "chunks": [e["PayloadChunk"]["Payload"].decode() for e in events if "PayloadChunk" in e],
        "complete": [e["InvokeComplete"] for e in events if "InvokeComplete" in e],
    }


def keep(key):
    table.put_item(Item={"PK": key, "expires": 1})
    ttl = table.meta.client.describe_time_to_live(TableName=table.name)["TimeToLiveDescription"]
    return {"found": table.get_item(Key={"PK": key})["Item"]["PK"], "ttl": ttl["AttributeName"]}


ACTIONS = {"invoke": invoke, "missing": missing, "stream": stream, "keep": keep}
