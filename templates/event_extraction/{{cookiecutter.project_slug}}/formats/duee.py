"""The submission format of DuEE's competitions."""


def duee_record(record: dict) -> dict:
    """Return a record of the predictions file in the format of DuEE's competitions.

    It has no offsets: what has the same words twice is written once.
    """

    def distinct(items: list[dict]) -> list[dict]:
        return [item for number, item in enumerate(items) if item not in items[:number]]

    def duee_event(event: dict) -> dict:
        trigger = {"trigger": event["trigger_text"]} if event["trigger"] else {}
        parts = [{"role": part["role"], "argument": part["text"]} for part in event["arguments"]]
        return {"event_type": event["type"], **trigger, "arguments": distinct(parts)}

    events = distinct([duee_event(event) for event in record["events"]])
    return {"id": record["id"], "event_list": events}
