package kubeletconfig

import "math"

// Rates are the fields that limit the requests to the API server.
type Rates struct {
	APIQPS, APIBurst, EventQPS, EventBurst *int
}

// rateFields are the fields of Rates.
var rateFields = map[string]func(*parser, string, any){
	"kubeAPIQPS":     func(p *parser, n string, v any) { p.number(n, v, 0, math.MaxInt32, &p.cfg.Rates.APIQPS) },
	"kubeAPIBurst":   func(p *parser, n string, v any) { p.number(n, v, 0, math.MaxInt32, &p.cfg.Rates.APIBurst) },
	"eventRecordQPS": func(p *parser, n string, v any) { p.number(n, v, 0, math.MaxInt32, &p.cfg.Rates.EventQPS) },
	"eventBurst":     func(p *parser, n string, v any) { p.number(n, v, 0, math.MaxInt32, &p.cfg.Rates.EventBurst) },
}
