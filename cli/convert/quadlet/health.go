package quadlet

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
)

// health sets the probes.
func (k *container) health() {
	duration := func(key string, otherwise time.Duration) time.Duration {
		e, ok := k.u.last("Container", key)
		if !ok {
			return otherwise
		}
		d, err := docker.ParseDuration(e.value, time.Second)
		if err != nil {
			k.report.Error(k.u.field(e), fmt.Sprintf("is %q", e.value), err.Error())
		}
		return d
	}
	count := func(key string, otherwise int32) int32 {
		e, ok := k.u.last("Container", key)
		if !ok {
			return otherwise
		}
		n, err := strconv.ParseInt(e.value, 10, 32)
		if err != nil || n < 0 || n > math.MaxInt32 {
			k.report.Error(k.u.field(e), fmt.Sprintf("is %q", e.value), "must be a number")
		}
		return int32(n)
	}
	if e, ok := k.u.last("Container", "HealthCmd"); ok && e.value != "none" {
		f := k.u.field(e)
		probe := k.b.Probe(f, podbuild.Health{Command: k.healthCommand(e),
			Interval: duration("HealthInterval", 30*time.Second), Timeout: duration("HealthTimeout", 30*time.Second),
			Retries: count("HealthRetries", 3)})
		k.c.ReadinessProbe = probe
		if action := k.u.value("Container", "HealthOnFailure"); action == "kill" || action == "restart" || action == "stop" {
			liveness := probe.DeepCopy()
			seconds, _ := docker.Seconds(duration("HealthStartPeriod", 0))
			liveness.InitialDelaySeconds = int32(min(seconds, math.MaxInt32))
			k.c.LivenessProbe = liveness
		}
	}
	if e, ok := k.u.last("Container", "HealthStartupCmd"); ok {
		probe := k.b.Probe(k.u.field(e),
			podbuild.Health{Command: k.healthCommand(e), Interval: duration("HealthStartupInterval", 30*time.Second),
				Timeout: duration("HealthStartupTimeout", 30*time.Second),
				Retries: k.startupRetries(count("HealthStartupRetries", 0))})
		k.c.StartupProbe = probe
		if count("HealthStartupSuccess", 0) > 1 {
			e, _ := k.u.last("Container", "HealthStartupSuccess")
			k.report.Lost(k.u.field(e), "one success of a startup probe suffices", "")
		}
	}
}

// startupRetries returns how many failures of a startup probe end the container; 0 is no limit for
// podman.
func (k *container) startupRetries(n int32) int32 {
	if n == 0 {
		return math.MaxInt32
	}
	return n
}

// healthCommand returns the command of a health check, which is a list in JSON or a line for the shell.
func (k *container) healthCommand(e entry) []string {
	text := k.u.expand(e, k.report)
	var list []string
	if json.Unmarshal([]byte(text), &list) == nil && len(list) > 0 {
		return list
	}
	return []string{"/bin/sh", "-c", strings.ReplaceAll(text, "$$", "$")}
}
