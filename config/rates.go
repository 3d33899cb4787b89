package config

import "cmp"

// Rates limit the requests to the API server, in requests per second and in requests at
// once; 0 is the default.
type Rates struct {
	// APIQPS and APIBurst are for all requests but heartbeats and events.
	APIQPS, APIBurst     int
	EventQPS, EventBurst int
}

// The kubelet's defaults.
const (
	defaultRequestsPerSecond = 50
	defaultRequestsBurst     = 100
)

func (r *Rates) settings() []setting {
	limit := func(flag, field string, to *int, base int, help string) setting {
		return setting{
			flag: flag, field: field, value: integerOrDefault(to, base, 0), cluster: true, help: help + "; 0 is the default",
			check: func(s *setting) {
				if *to < 0 {
					s.table.failAt(both{s}, ": %d: must be 0 or more", *to)
				}
				*to = cmp.Or(*to, base)
			},
		}
	}
	return []setting{
		limit("kube-api-qps", "kubeAPIQPS", &r.APIQPS, defaultRequestsPerSecond, "most requests per second to the API "+
			"server, without heartbeats and events"),
		limit("kube-api-burst", "kubeAPIBurst", &r.APIBurst, defaultRequestsBurst, "most requests to the API server at "+
			"once, without heartbeats and events"),
		limit("event-qps", "eventRecordQPS", &r.EventQPS, defaultRequestsPerSecond, "most events per second that are sent "+
			"to the API server"),
		limit("event-burst", "eventBurst", &r.EventBurst, defaultRequestsBurst, "most events that are sent to the API "+
			"server at once"),
	}
}
