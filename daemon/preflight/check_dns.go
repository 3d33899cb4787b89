package preflight

import (
	"maps"
	"slices"
	"strings"
)

// PodDNS is the state of the name server that resolves the names of pods.
type PodDNS struct {
	// Running: its process responds. Listening are the addresses that are open; Failed reports why
	// others are not.
	Running bool
	// Given: new pods get it. Otherwise its process is left for pods that an earlier setting gave it to.
	Given     bool
	Listening []string
	Failed    map[string]string
}

// podDNS checks the name server of pods, if it runs: the daemon starts it.
func podDNS(_ *Host, s *Settings) []Finding {
	d := &s.PodDNS
	switch {
	case !d.Running:
		return nil
	case !d.Given:
		return ok("pod-dns", "new pods do not get the name server of pods (podDNS); its process serves pods that were "+
			"started with another setting")
	case len(d.Failed) > 0:
		var why []string
		for _, address := range slices.Sorted(maps.Keys(d.Failed)) {
			why = append(why, d.Failed[address])
		}
		return warn("pod-dns", "ss -lunp 'sport = :10053'  (stop the program that listens there, or set podDNS: never)",
			"the name server of pods cannot listen, so that pods which start now do not resolve the names of others: %s",
			strings.Join(why, "; "))
	}
	return ok("pod-dns", "the name server of pods listens on %s", strings.Join(d.Listening, ", "))
}
