package pods

import (
	v1 "k8s.io/api/core/v1"
)

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

// onCode3 returns rules for exit code 3, which the script `fails` uses.
func onCode3(action v1.ContainerRestartRuleAction) []v1.ContainerRestartRule {
	return []v1.ContainerRestartRule{{
		Action:    action,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{3}},
	}}
}

// timelines has a case for each rule of order, restart and termination in the reference.
var timelines = []timeline{
	// Regular containers alone: policy and exit code.
	{name: "always-ends", policy: always, list: []member{{name: "m", does: ends}},
		want: []string{"m start >= 2", "phase Running"}},
	{name: "always-fails", policy: always, list: []member{{name: "m", does: fails}},
		want: []string{"m start >= 2", "phase Running"}},
	{name: "onfailure-ends", policy: onFailure, list: []member{{name: "m", does: ends}},
		want: []string{"phase Succeeded", "m start x 1"}},
	{name: "onfailure-fails-once", policy: onFailure, list: []member{{name: "m", does: failsOnce}},
		want: []string{"phase Succeeded", "m start x 2"}},
	{name: "never-ends", policy: never, list: []member{{name: "m", does: ends}},
		want: []string{"phase Succeeded", "m start x 1"}},
	{name: "never-fails", policy: never, list: []member{{name: "m", does: fails}},
		want: []string{"phase Failed", "m start x 1"}},
	{name: "never-one-of-two-fails", policy: never, list: []member{{name: "a", does: fails}, {name: "b", does: ends}},
		want: []string{"phase Failed", "a start x 1", "b start x 1"}},
	{name: "onfailure-one-goes-on", policy: onFailure, list: []member{{name: "a", does: ends}, {name: "b", does: stays}},
		want: []string{"a end >= 1", "b start x 1", "phase Running", "a start x 1"}},
	{name: "regular-in-order", policy: always, list: []member{{name: "a", does: stays}, {name: "b", does: stays}},
		want: []string{"b start >= 1", "phase Running"}, ended: []string{"a term x 1", "b term x 1"}},

	// A container's own policy and rules.
	{name: "own-onfailure-in-always", policy: always,
		list: []member{{name: "job", does: ends, policy: v1.ContainerRestartPolicyOnFailure}, {name: "m", does: stays}},
		want: []string{"job end >= 1", "m start x 1", "phase Running", "job start x 1"}},
	{name: "own-always-in-never", policy: never,
		list: []member{{name: "loop", does: ends, policy: v1.ContainerRestartPolicyAlways}},
		want: []string{"loop start >= 2", "phase Running"}},
	{name: "own-never-in-always", policy: always,
		list: []member{{name: "m", does: fails, policy: v1.ContainerRestartPolicyNever}},
		want: []string{"phase Failed", "m start x 1"}},
	{name: "rule-restarts", policy: never,
		list: []member{{name: "m", does: failsOnce, policy: v1.ContainerRestartPolicyNever,
			rules: onCode3(v1.ContainerRestartRuleActionRestart)}},
		want: []string{"phase Succeeded", "m start x 2"}},
	{name: "rule-does-not-match", policy: never,
		list: []member{{name: "m", does: `sleep 0.3; log end; exit 4`, policy: v1.ContainerRestartPolicyNever,
			rules: onCode3(v1.ContainerRestartRuleActionRestart)}},
		want: []string{"phase Failed", "m start x 1"}},
	{name: "rule-restarts-all", policy: always, list: []member{
		{kind: initial, name: "i", does: ends}, {kind: sidecar, name: "s", does: stays}, {name: "other", does: stays},
		{name: "m", does: failsOnceThenStays, policy: v1.ContainerRestartPolicyNever,
			rules: onCode3(v1.ContainerRestartRuleActionRestartAllContainers)}},
		want: []string{"m start x 2", "i start x 2", "s start x 2", "other start x 2", "phase Running"}},

	// Init containers.
	{name: "init-in-order", policy: always,
		list: []member{{kind: initial, name: "a", does: ends}, {kind: initial, name: "b", does: ends},
			{name: "m", does: stays}},
		want: []string{"a end < b start", "b end < m start", "phase Running", "a start x 1", "b start x 1"}},
	{name: "init-fails-never", policy: never,
		list: []member{{kind: initial, name: "a", does: fails}, {kind: initial, name: "b", does: ends},
			{name: "m", does: ends}},
		want: []string{"phase Failed", "a start x 1", "b start x 0", "m start x 0"}},
	{name: "init-fails-once-onfailure", policy: onFailure,
		list: []member{{kind: initial, name: "a", does: failsOnce}, {kind: initial, name: "b", does: ends},
			{name: "m", does: ends}},
		want: []string{"phase Succeeded", "a start x 2", "b start x 1", "b end < m start"}},
	{name: "init-fails-once-always", policy: always,
		list: []member{{kind: initial, name: "a", does: failsOnce}, {name: "m", does: stays}},
		want: []string{"phase Running", "a start x 2", "m start x 1"}},
	{name: "init-stays-done", policy: always,
		list: []member{{kind: initial, name: "a", does: ends}, {name: "m", does: fails}},
		want: []string{"m start >= 2", "a start x 1"}},
	{name: "init-own-onfailure-in-never", policy: never,
		list: []member{{kind: initial, name: "a", does: failsOnce, policy: v1.ContainerRestartPolicyOnFailure},
			{name: "m", does: ends}},
		want: []string{"phase Succeeded", "a start x 2", "m start x 1"}},
	{name: "init-own-never-in-always", policy: always,
		list: []member{{kind: initial, name: "a", does: fails, policy: v1.ContainerRestartPolicyNever},
			{name: "m", does: stays}},
		want: []string{"phase Failed", "a start x 1", "m start x 0"}},

	// Sidecars.
	{name: "sidecars-in-order", policy: always, list: []member{
		{kind: sidecar, name: "s1", does: stays}, {kind: initial, name: "a", does: ends},
		{kind: sidecar, name: "s2", does: stays}, {name: "m", does: takesLong}},
		want:  []string{"s1 start < a start", "a end < s2 start", "s2 start < m start", "phase Running"},
		ended: []string{"m end < s2 term", "s2 end < s1 term", "s1 end x 1"}},
	{name: "sidecar-startup-holds-init", policy: always, list: []member{
		{kind: sidecar, name: "s", does: stays, startup: startsLate}, {kind: initial, name: "a", does: ends},
		{name: "m", does: stays}},
		want: []string{"s up < a start", "a end < m start", "phase Running"}},
	{name: "sidecar-startup-holds-main", policy: always,
		list: []member{{kind: sidecar, name: "s", does: stays, startup: startsLate}, {name: "m", does: stays}},
		want: []string{"s up < m start", "phase Running"}},
	{name: "sidecar-restarts", policy: always,
		list: []member{{kind: sidecar, name: "s", does: failsOnceThenStays}, {name: "m", does: stays}},
		want: []string{"s start x 2", "m start x 1", "phase Running"}},
	{name: "sidecar-restarts-in-never", policy: never,
		list: []member{{kind: sidecar, name: "s", does: failsOnceThenStays}, {name: "m", does: stays}},
		want: []string{"s start x 2", "m start x 1", "phase Running"}},
	{name: "sidecar-restarts-during-init", policy: never, list: []member{
		{kind: sidecar, name: "s", does: failsOnceThenStays}, {kind: initial, name: "a", does: `sleep 3; log end; exit 0`},
		{name: "m", does: stays}},
		want: []string{"s start x 2", "a start x 1", "a end < m start", "phase Running"}},
	{name: "sidecar-liveness", policy: never,
		list: []member{{kind: sidecar, name: "s", does: stays, liveness: diesOnce}, {name: "m", does: stays}},
		want: []string{"s start x 2", "m start x 1", "phase Running"}},
	{name: "job-with-sidecar-never", policy: never,
		list: []member{{kind: sidecar, name: "s", does: stays}, {name: "m", does: ends}},
		want: []string{"phase Succeeded", "m end < s term", "s start x 1", "m start x 1"}},
	{name: "job-with-sidecar-fails", policy: never,
		list: []member{{kind: sidecar, name: "s", does: stays}, {name: "m", does: fails}},
		want: []string{"phase Failed", "m end < s term", "s start x 1", "m start x 1"}},
	{name: "job-with-sidecar-onfailure", policy: onFailure,
		list: []member{{kind: sidecar, name: "s", does: stays}, {name: "m", does: failsOnce}},
		want: []string{"phase Succeeded", "m start x 2", "s start x 1", "m end < s term"}},
	{name: "job-with-sidecar-that-fails-at-the-end", policy: never,
		list: []member{{kind: sidecar, name: "s", does: badTerm}, {name: "m", does: ends}},
		want: []string{"phase Succeeded", "s start x 1"}},
	{name: "sidecar-and-failing-init-never", policy: never,
		list: []member{{kind: sidecar, name: "s", does: stays}, {kind: initial, name: "a", does: fails},
			{name: "m", does: ends}},
		want: []string{"phase Failed", "s term x 1", "a start x 1", "m start x 0"}},
	{name: "sidecar-and-init-that-fails-once", policy: always,
		list: []member{{kind: sidecar, name: "s", does: stays}, {kind: initial, name: "a", does: failsOnce},
			{name: "m", does: stays}},
		want: []string{"phase Running", "s start x 1", "a start x 2", "m start x 1"}},

	// Hooks.
	{name: "poststart-holds-next", policy: always,
		list: []member{{name: "a", does: stays, postStart: hook}, {name: "b", does: stays}},
		want: []string{"a post-end < b start", "phase Running"}},
	{name: "poststart-of-sidecar-holds-init", policy: always, list: []member{
		{kind: sidecar, name: "s", does: stays, postStart: hook}, {kind: initial, name: "a", does: ends},
		{name: "m", does: stays}},
		want: []string{"s post-end < a start", "phase Running"}},
	{name: "poststart-fails-always", policy: always, list: []member{{name: "m", does: stays, postStart: badHook}},
		want: []string{"m start >= 2", "m term >= 1"}},
	{name: "poststart-fails-never", policy: never, list: []member{{name: "m", does: badTerm, postStart: badHook}},
		want: []string{"phase Failed", "m start x 1", "m term x 1"}},
	{name: "poststart-fails-onfailure", policy: onFailure,
		list: []member{{name: "m", does: badTerm, postStart: badHookOnce}},
		want: []string{"m start x 2", "phase Running"}},
	{name: "poststart-of-sidecar-fails", policy: never, list: []member{
		{kind: sidecar, name: "s", does: stays, postStart: badHookOnce}, {name: "m", does: stays}},
		want: []string{"s start x 2", "m start x 1", "phase Running"}},
	{name: "prestop-at-removal", policy: always, list: []member{{name: "m", does: stays, preStop: hook}},
		want:  []string{"m start x 1", "phase Running"},
		ended: []string{"m pre-begin < m pre-end", "m pre-end < m term", "m end x 1"}},
	{name: "prestop-fails", policy: always, list: []member{{name: "m", does: stays, preStop: badHook}},
		want: []string{"m start x 1", "phase Running"}, ended: []string{"m pre-begin < m term", "m end x 1"}},
	{name: "prestop-outlasts-the-grace", policy: always, grace: 30,
		list: []member{{name: "m", does: stays, preStop: `log pre-begin; sleep 1000`}},
		want: []string{"m start x 1", "phase Running"}, ended: []string{"m pre-begin < m term", "m end x 1"}},
	{name: "prestop-not-at-a-natural-end", policy: never, list: []member{{name: "m", does: ends, preStop: hook}},
		want: []string{"phase Succeeded", "m pre-begin x 0"}},
	{name: "prestop-at-a-kill-by-a-probe", policy: always,
		list: []member{{name: "m", does: stays, preStop: hook, liveness: diesOnce}},
		want: []string{"m start >= 2", "m pre-end < m term"}},
	{name: "prestop-of-sidecars-comes-first", policy: always,
		list: []member{{kind: sidecar, name: "s", does: stays, preStop: hook}, {name: "m", does: takesLong}},
		want: []string{"m start x 1", "phase Running"}, ended: []string{"s pre-begin < m end", "m end < s term"}},
	{name: "sidecars-prestop-after-a-job", policy: never,
		list: []member{{kind: sidecar, name: "s", does: stays, preStop: hook}, {name: "m", does: ends}},
		want: []string{"phase Succeeded", "m end < s pre-begin", "s pre-end < s term"}},
	{name: "init-poststart-prestop", policy: onFailure, list: []member{
		{kind: initial, name: "i", does: failsOnce}, {kind: sidecar, name: "s", does: stays, postStart: hook, preStop: hook},
		{name: "m", does: failsOnce, postStart: `log post-end`, preStop: hook}},
		want: []string{"phase Succeeded", "i start x 2", "i end < s start", "s post-end < m start", "m start x 2",
			"s start x 1", "m pre-begin x 0", "s pre-end < s term"}},
}
