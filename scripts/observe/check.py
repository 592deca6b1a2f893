"""Runs every query of the dashboards and rules on a real Prometheus that scrapes a running system.

A query fails if it is invalid, if no service exports one of its series, or if it returns no number.
scripts/observe-check.sh starts this program.
"""

import json
import math
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

from customers import Customers, call
from promql import selectors

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PORTS = {"order": 8081, "payment": 8082, "fulfilment": 8083, "receipt": 8084, "psp": 8090, "canary": 8085}
START_SECONDS = 40
# Longest time until every query returns a number: a message must be parked, and a few scrapes must follow.
FIGURES_SECONDS = 60

# Selectors that have no series in a healthy system, with the reason.
EMPTY = {'ALERTS{alertstate="firing"}': "no alert fires within the first minute"}
# Variables that Grafana replaces.
VARIABLES = {"$__rate_interval": "1m", "$__range": "15m", "$job": ".+"}


def main(lab):
    with tempfile.TemporaryDirectory(prefix="chargeonce-observe-") as scratch:
        scratch = pathlib.Path(scratch)
        children = []
        try:
            system = start_system(lab, scratch, children)
            canary = start_canary(lab, scratch, children)
            prometheus = start_prometheus(system, canary, scratch, children)
            customers = Customers(system)
            customers.start()
            problems = wait_for_figures(prometheus, customers)
            customers.stopped.set()
            customers.join()
        finally:
            stop(children)
    for problem in problems:
        print(f"  ✗ {problem}")
    return 1 if problems else 0


def start_system(lab, scratch, children):
    state = scratch / "state"
    command = [lab, "up", "--kafka", "embedded", "--ports", "free", "--state-dir", state]
    log = (scratch / "lab.log").open("wb")
    children.append(spawn(command, log))
    wait_for(START_SECONDS, "the system", children, scratch / "lab.log", (state / "system.json").exists)
    return json.loads((state / "system.json").read_text())


def start_canary(lab, scratch, children):
    """Starts the canary on the system; returns its address."""
    command = [pathlib.Path(lab).parent / "chargeonce", "canary", "--interval", "2", "--listen", "127.0.0.1:0"]
    log = scratch / "canary.log"
    children.append(spawn([*command, "--state-dir", scratch / "state"], log.open("wb")))

    def address():
        return re.search(r"metrics at http://([^/]+)/", log.read_text())

    wait_for(START_SECONDS, "the canary", children, log, address)
    return address()[1]


def start_prometheus(system, canary, scratch, children):
    """Starts Prometheus with the project's rules and configuration, except for the targets."""
    text = (DEPLOY / "prometheus/prometheus.yml").read_text()
    for job, port in PORTS.items():
        target = canary if job == "canary" else urllib.parse.urlparse(system["urls"][job][0]).netloc
        found = rf"(job_name: {job}\n\s+)dns_sd_configs: \[{{ names: \[{job}\], type: A, port: {port},.*"
        text, count = re.subn(found, rf'\1static_configs: [{{ targets: ["{target}"] }}]', text)
        if count != 1:
            raise SystemExit(f"prometheus.yml has no DNS target for {job} at port {port}")
    text = re.sub(r"(scrape_interval|scrape_timeout|evaluation_interval): \d+s", r"\1: 1s", text)
    (scratch / "prometheus.yml").write_text(text)
    (scratch / "rules.yml").write_text((DEPLOY / "prometheus/rules.yml").read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % free.getsockname()[1]
    command = ["prometheus", f"--config.file={scratch}/prometheus.yml"]
    command += [f"--storage.tsdb.path={scratch}/data", f"--web.listen-address={address}"]
    log = (scratch / "prometheus.log").open("wb")
    children.append(spawn(command, log))
    url = f"http://{address}"
    wait_for(START_SECONDS, "Prometheus", children, scratch / "prometheus.log", lambda: is_ready(url))
    return url


def is_ready(url):
    try:
        return call("GET", f"{url}/-/ready")[0] == 200
    except OSError:
        return False


def wait_for_figures(prometheus, customers):
    """Repeats all checks until they pass; returns the problems left at the deadline."""
    deadline = time.monotonic() + FIGURES_SECONDS
    while True:
        rules = ask(prometheus, "rules")["groups"]
        queries = [*of_dashboards(), *of_rules(rules)]
        problems = [*missing_names(prometheus), *unhealthy(rules)]
        problems += [it for query in queries for it in check_query(prometheus, *query)]
        if customers.failure:
            return [f"the customers failed: {customers.failure}"]
        if not problems:
            print(f"{len(queries)} queries return numbers.")
            return []
        if time.monotonic() > deadline:
            return problems
        time.sleep(1)


def of_dashboards():
    """Yields place and text of each query (panels, annotations, variables), and whether it must return a number."""
    for path in sorted((DEPLOY / "grafana/dashboards").glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", target["expr"], True
        for annotation in board["annotations"]["list"]:
            yield f"{path.name}: {annotation['name']}", annotation["expr"], False
        for variable in board["templating"]["list"]:
            expression = re.fullmatch(r"label_values\((.+), \w+\)", variable["definition"])
            yield f"{path.name}: ${variable['name']}", expression[1], True


def of_rules(groups):
    """Yields the same for each rule. An alert returns nothing in a healthy system, but its series must exist."""
    for rule in (rule for group in groups for rule in group["rules"]):
        yield f"rules.yml: {rule['name']}", rule["query"], rule["type"] == "recording"


def check_query(prometheus, where, expression, needs_number):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    try:
        result = ask(prometheus, "query", query=expression)["result"]
        for selector in selectors(expression):
            if selector not in EMPTY and not ask(prometheus, "series", **{"match[]": selector}):
                yield f"{where}: no service exports {selector}"
    except ValueError as error:
        yield f"{where}: {error}"
        return
    if needs_number and not any(math.isfinite(float(series["value"][1])) for series in result):
        yield f"{where}: no number for {expression}"


def unhealthy(groups):
    for rule in (rule for group in groups for rule in group["rules"]):
        if rule["health"] != "ok":
            yield f"rules.yml: {rule['name']} is {rule['health']}: {rule.get('lastError', '')}"
        for alert in rule.get("alerts", []):
            for text in alert["annotations"].values():
                if "error expanding" in text:
                    yield f"rules.yml: {rule['name']}: {text}"


def missing_names(prometheus):
    """Metrics that the code names and no service exports. Empty if the customers' requests cause every metric."""
    code = (ROOT / "shared/telemetry/src/metric.rs").read_text()
    seen = set(ask(prometheus, "label/__name__/values"))
    for name in re.findall(r'pub const \w+: &str = "(\w+)";', code):
        if not seen & {name, f"{name}_count"}:
            yield f"metric.rs: no service exports {name}"


def ask(prometheus, path, **parameters):
    query = urllib.parse.urlencode(parameters)
    status, body = call("GET", f"{prometheus}/api/v1/{path}?{query}")
    response = json.loads(body)
    if status != 200 or response["status"] != "success":
        raise ValueError(response.get("error", f"status {status}"))
    return response["data"]


def wait_for(seconds, what, children, log, holds):
    deadline = time.monotonic() + seconds
    while not holds():
        if children[-1].poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{what} did not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.1)


def spawn(command, log):
    """Starts a child in a new session: Ctrl-C reaches only this program, which stops its children in order."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
    return subprocess.Popen(command, start_new_session=True, **streams)


def stop(children):
    for child in reversed(children):
        child.terminate()
    for child in reversed(children):
        try:
            child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            child.kill()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    sys.exit(main(sys.argv[1]))
