"""Alterations of a delivery that every verifier must reject."""

import time


def alter_body(delivery):
    delivery["body"] = delivery["body"].replace("token.created", "token.deleted")


def alter_id(delivery):
    delivery["headers"]["webhook-id"] = "another-event"


def alter_time(delivery):
    delivery["headers"]["webhook-timestamp"] = str(int(time.time()) + 1)
