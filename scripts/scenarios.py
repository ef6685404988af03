"""Prints the result of each scenario in the Cucumber reports of a directory; fails if one did not pass, or if there is none."""
import json
import pathlib
import sys


def fault(scenario):
    """The first step that did not pass, and why; None if all did."""
    for step in scenario["steps"]:
        result = step["result"]
        if result["status"] != "passed":
            why = result.get("error_message", "").strip()
            return f"{result['status']}: {step['keyword'].strip()} {step['name']}{': ' if why else ''}{why}"
    return None


scenarios = failed = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*-report.json")):
    for feature in json.loads(path.read_text()):
        print(f"Feature: {feature['name']}")
        for scenario in feature.get("elements", []):
            if scenario["type"] == "background":
                continue
            scenarios += 1
            why = fault(scenario)
            failed += why is not None
            print(f"  {'FAILED' if why else 'passed'}  {scenario['name']} (line {scenario['line']})")
            if why:
                print(f"          {why}")
print(f"{scenarios} scenarios ({scenarios - failed} passed{f', {failed} failed' if failed else ''})")
sys.exit(failed > 0 or scenarios == 0)
