package preflight

import (
	"path/filepath"
	"strconv"
	"strings"
)

const allCapabilities = "run podstead with all capabilities  (in a container: docker run --privileged; as a service: " +
	"no CapabilityBoundingSet)"

// capSysResource is the bit of CAP_SYS_RESOURCE in capability.h.
const capSysResource = 24

// requiredCapabilities are capabilities of the daemon by their bits in capability.h.
var requiredCapabilities = []struct {
	bit  uint
	name string
	// effect is what does not work without it, fix the remedy. Without a required capability no pod runs.
	effect, fix string
	required    bool
}{
	{12, "CAP_NET_ADMIN", "pod networks cannot be set up", allCapabilities, true},
	{21, "CAP_SYS_ADMIN", "volumes cannot be mounted", allCapabilities, true},
	{34, "CAP_SYSLOG", "OOM kills by the kernel are not reported as events", "run podstead with CAP_SYSLOG", false},
}

func capabilities(h *Host, s *Settings) (list []Finding) {
	has, known := h.capabilitiesOf("self")
	if !known || h.UID != 0 {
		return nil
	}
	for _, c := range requiredCapabilities {
		switch {
		case has&(1<<c.bit) != 0:
		case c.required:
			list = append(list, fail("capabilities", c.fix, "root does not have %s: %s", c.name, c.effect)...)
		default:
			list = append(list, warn("capabilities", c.fix, "root does not have %s: %s", c.name, c.effect)...)
		}
	}
	list = append(list, h.oomScore(&s.Runtime)...)
	if list == nil {
		return ok("capabilities", "root has all required capabilities")
	}
	return list
}

// capabilitiesOf returns the effective capabilities of a process, by its directory in proc.
func (h *Host) capabilitiesOf(process string) (set uint64, known bool) {
	for l := range strings.Lines(h.text(filepath.Join("proc", process, "status"))) {
		if text, found := strings.CutPrefix(l, "CapEff:"); found {
			set, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return set, err == nil
		}
	}
	return 0, false
}

// sandboxOOMScore is the OOM score of the process of a sandbox.
const sandboxOOMScore = -998

// oomScore checks that the runtime can give sandboxes their OOM score. The kernel lets a process without
// CAP_SYS_RESOURCE set a score down to the lowest that a process with it has set before, which is not higher than its
// own. containerd has a setting for hosts without the capability, with which a private containerd starts.
func (h *Host) oomScore(r *Runtime) []Finding {
	process := "self"
	if r.PID != 0 {
		process = strconv.Itoa(r.PID)
	}
	has, known := h.capabilitiesOf(process)
	restricted := r.RestrictsOOMScore != nil && *r.RestrictsOOMScore
	if !known || has&(1<<capSysResource) != 0 || restricted || r.Private && r.Err != nil {
		return nil
	}
	if own, known := h.number(filepath.Join("proc", process, "oom_score_adj")); known && own <= sandboxOOMScore {
		return nil
	}
	name := service(r.Endpoint)
	list := fail("capabilities", "run "+name+" with CAP_SYS_RESOURCE  (in a container: docker run --cap-add SYS_RESOURCE)",
		"%s does not have CAP_SYS_RESOURCE, so it cannot set the OOM score of sandboxes: no pod can start", name)
	switch {
	case r.Private:
		// podstead configures it for the capabilities that it has when it starts it.
		list[0].Fix = "reboot  (podstead then starts its containerd with the setting for this)"
	case name == "containerd":
		list[0].Fix = h.containerdConfig(r).set("restrict_oom_score_adj", "true") + h.restart(r)
		if h.exists("run/systemd/system") {
			return repaired(list)
		}
	}
	return list
}
