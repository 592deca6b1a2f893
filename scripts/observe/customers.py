"""Customers of a running system. Their valid and invalid requests cause every metric."""

import json
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid

PAUSE_SECONDS = 0.2
PATIENCE_SECONDS = 30


def call(method, url, body=None, headers=None):
    """Returns status and body, even for error statuses."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=15) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def order(method="pm_card_ok", sku="SKU-99", quantity=1):
    return {
        "customer_id": "cust-88",
        "currency": "USD",
        "payment_method": method,
        "items": [{"sku": sku, "quantity": quantity, "unit_price": 2500}],
    }


class Customers(threading.Thread):
    """Places orders until `stopped` is set; `failure` is the error that ended it early."""

    def __init__(self, system):
        super().__init__(daemon=True)
        self.urls = {name: urls[0] for name, urls in system["urls"].items()}
        self.operator_urls = {name: urls[0] for name, urls in system["operator_urls"].items()}
        self.operator = {"Authorization": f"Bearer {system['operator_token']}", "X-Reason": "observe check"}
        self.stock = system["database_urls"]["fulfilment"]
        self.stopped = threading.Event()
        self.failure = None

    def run(self):
        try:
            self.park_and_redrive()
            while not self.stopped.wait(PAUSE_SECONDS):
                self.shop()
        except Exception as error:  # reported by wait_for_figures
            self.failure = error

    def shop(self):
        """Makes one round of requests: order, repeat, reused key, decline, sold out, direct charge."""
        key = str(uuid.uuid4())
        self.place(order(), key, 201)
        self.place(order(), key, 201)
        self.place(order(quantity=2), key, 422)
        # The provider fails its next two calls, so one outcome stays unknown for a while.
        fault = {"point": "before_charge", "action": "error", "status": 500, "times": 2}
        faults = f"{self.operator_urls['psp']}/admin/faults"
        self.expect(call("POST", faults, fault, self.operator), 200, 201)
        self.place(order(), str(uuid.uuid4()), 201)
        self.place(order(method="pm_card_declined"), str(uuid.uuid4()), 201)
        self.place(order(sku="SKU-sold-out"), str(uuid.uuid4()), 201)
        direct = {"amount": 5000, "currency": "USD", "payment_method": "pm_card_ok"}
        headers = self.headers(str(uuid.uuid4()))
        self.expect(call("POST", f"{self.urls['payment']}/payments", direct, headers), 201, 202)

    def park_and_redrive(self):
        """Parks a message that fulfilment cannot handle, removes the cause, and redrives the message."""
        self.sql("alter table stock add constraint unlucky check (sku <> 'SKU-13') not valid")
        self.place(order(sku="SKU-13"), str(uuid.uuid4()), 201)
        parked = f"{self.operator_urls['fulfilment']}/admin/parked"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (page := json.loads(call("GET", parked, headers=self.operator)[1])["data"]):
            if time.monotonic() > deadline:
                raise RuntimeError("fulfilment never parked the message")
            time.sleep(PAUSE_SECONDS)
        self.sql("alter table stock drop constraint unlucky")
        redrive = f"{parked}/{page[0]['id']}/redrive"
        self.expect(call("POST", redrive, headers=self.operator), 200)

    def place(self, body, key, status):
        response = call("POST", f"{self.urls['order']}/orders", body, self.headers(key))
        self.expect(response, status)

    def headers(self, key):
        return {"Authorization": "Bearer demo-key-acme", "Idempotency-Key": key}

    def sql(self, statement):
        subprocess.run(["psql", "-q", self.stock, "-c", statement], check=True)

    def expect(self, response, *statuses):
        status, body = response
        if status not in statuses:
            raise RuntimeError(f"status {status} instead of {statuses}: {body.decode()[:300]}")
