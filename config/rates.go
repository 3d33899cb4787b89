package config

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
)

// Rates limit the requests to the API server, in requests per second and in requests at
// once; 0 is the default.
type Rates struct {
	// APIQPS and APIBurst are for all requests but heartbeats and events.
	APIQPS, APIBurst     int
	EventQPS, EventBurst int

	// set are the fields that the config file sets.
	set []string
}

// The kubelet's defaults.
const (
	defaultRequestsPerSecond = 50
	defaultRequestsBurst     = 100
)

// rate is one limit with its names.
type rate struct {
	field, flag, usage string
	value              *int
	base               int
}

func (r *Rates) all() []rate {
	return []rate{
		{"kubeAPIQPS", "kube-api-qps", "most requests per second to the API server, without heartbeats and events", &r.APIQPS, defaultRequestsPerSecond},
		{"kubeAPIBurst", "kube-api-burst", "most requests to the API server at once, without heartbeats and events", &r.APIBurst, defaultRequestsBurst},
		{"eventRecordQPS", "event-qps", "most events per second that are sent to the API server", &r.EventQPS, defaultRequestsPerSecond},
		{"eventBurst", "event-burst", "most events that are sent to the API server at once", &r.EventBurst, defaultRequestsBurst},
	}
}

func (r *Rates) addFlags(f *pflag.FlagSet) {
	for _, limit := range r.all() {
		f.IntVar(limit.value, limit.flag, limit.base, limit.usage+"; 0 is the default")
	}
}

// merge applies the settings of the file that no flag sets.
func (r *Rates) merge(c *kubeletconfig.Rates, f *pflag.FlagSet) {
	from := map[string]*int{"kubeAPIQPS": c.APIQPS, "kubeAPIBurst": c.APIBurst, "eventRecordQPS": c.EventQPS, "eventBurst": c.EventBurst}
	for _, limit := range r.all() {
		value := from[limit.field]
		if value == nil || *value == 0 {
			continue
		}
		r.set = append(r.set, limit.field)
		if !f.Changed(limit.flag) {
			*limit.value = *value
		}
	}
}

// unused returns the settings that have no effect without a cluster.
func (r *Rates) unused(f *pflag.FlagSet) []string {
	names := r.set
	for _, limit := range r.all() {
		if f.Changed(limit.flag) {
			names = append(names, "--"+limit.flag)
		}
	}
	return names
}

// check validates the limits, and sets those that are 0.
func (r *Rates) check() error {
	var errs []error
	for _, limit := range r.all() {
		switch {
		case *limit.value < 0:
			errs = append(errs, fmt.Errorf("--%s (%s): %d: must be 0 or more", limit.flag, limit.field, *limit.value))
		case *limit.value == 0:
			*limit.value = limit.base
		}
	}
	return errors.Join(errs...)
}
