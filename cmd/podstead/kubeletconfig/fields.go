package kubeletconfig

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/podstead/podstead/internal/suggest"
)

// parser fills cfg field by field and collects what is wrong.
type parser struct {
	cfg  *Config
	dir  string
	errs []error
}

// honoured are the fields that are applied.
var honoured = map[string]func(*parser, string, any){
	"staticPodPath":                  func(p *parser, n string, v any) { p.path(n, v, &p.cfg.StaticPodPath) },
	"staticPodURL":                   func(p *parser, n string, v any) { p.text(n, v, &p.cfg.StaticPodURL) },
	"staticPodURLHeader":             (*parser).headers,
	"fileCheckFrequency":             func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.FileCheckFrequency) },
	"httpCheckFrequency":             func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.HTTPCheckFrequency) },
	"containerRuntimeEndpoint":       func(p *parser, n string, v any) { p.text(n, v, &p.cfg.ContainerRuntimeEndpoint) },
	"streamingConnectionIdleTimeout": func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.StreamingConnectionIdleTimeout) },
	"runtimeRequestTimeout":          func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.RuntimeRequestTimeout) },
	"podLogsDir":                     func(p *parser, n string, v any) { p.path(n, v, &p.cfg.PodLogsDir) },
	"healthzBindAddress":             func(p *parser, n string, v any) { p.text(n, v, &p.cfg.HealthzBindAddress) },
	"healthzPort":                    func(p *parser, n string, v any) { p.number(n, v, 0, 65535, &p.cfg.HealthzPort) },
	"seccompDefault":                 func(p *parser, n string, v any) { p.truth(n, v, &p.cfg.SeccompDefault) },
	"allowedUnsafeSysctls":           func(p *parser, n string, v any) { p.texts(n, v, &p.cfg.AllowedUnsafeSysctls) },
	"maxPods":                        func(p *parser, n string, v any) { p.number(n, v, 0, math.MaxInt32, &p.cfg.MaxPods) },
	"podsPerCore":                    func(p *parser, n string, v any) { p.number(n, v, 0, math.MaxInt32, &p.cfg.PodsPerCore) },
	"containerLogMaxSize":            func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Garbage.ContainerLogMaxSize) },
	"containerLogMaxFiles":           (*parser).logFiles,
	"imageGCHighThresholdPercent": func(p *parser, n string, v any) {
		p.number(n, v, 0, 100, &p.cfg.Garbage.ImageGCHighThresholdPercent)
	},
	"imageGCLowThresholdPercent": func(p *parser, n string, v any) {
		p.number(n, v, 0, 100, &p.cfg.Garbage.ImageGCLowThresholdPercent)
	},
	"clusterDNS":            func(p *parser, n string, v any) { p.texts(n, v, &p.cfg.ClusterDNS) },
	"clusterDomain":         func(p *parser, n string, v any) { p.text(n, v, &p.cfg.ClusterDomain) },
	"resolvConf":            (*parser).resolvConf,
	"imageMinimumGCAge":     func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.Garbage.ImageMinimumGCAge) },
	"imageMaximumGCAge":     func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.Garbage.ImageMaximumGCAge) },
	"maxParallelImagePulls": (*parser).parallelPulls,
	"serializeImagePulls":   (*parser).serializePulls,
	"crashLoopBackOff":      (*parser).crashLoop,
	"authorization":         (*parser).authorization,
	"volumeStatsAggPeriod":  func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.VolumeStatsAggPeriod) },
}

// met are fields for which one value asks for what podstead does anyway. Any
// other value is named as not honoured.
var met = map[string]any{
	"cgroupsPerQOS":         true,
	"failSwapOn":            false,
	"failCgroupV1":          false,
	"protectKernelDefaults": true, // no sysctl of the host is ever changed
	"runOnce":               false,
	"enableServer":          true,
	// Whoever may write a manifest here is root: nobody is kept from an image.
	"imagePullCredentialsVerificationPolicy": "NeverVerify",
}

// field judges one field of the file.
func (p *parser) field(name string, value any) {
	if value == nil {
		return // as absent
	}
	for _, fields := range []map[string]func(*parser, string, any){honoured, honouredCgroups, honouredShutdown, honouredEviction, honouredRemote, honouredNode} {
		if apply, ok := fields[name]; ok {
			apply(p, name, value)
			return
		}
	}
	if !slices.Contains(known, name) {
		p.fail(name, "unknown field%s", suggestion(name))
		return
	}
	if want, ok := met[name]; ok && want == value || asksForDefault(value) {
		return
	}
	p.cfg.Ignored = append(p.cfg.Ignored, name)
}

// asksForDefault tells a value by which the kubelet's default is asked for.
// kubeadm writes each field that has no pointer in Go, and so most as a zero. A
// number or a truth of its own may be meant as it stands.
func asksForDefault(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || v == "0s"
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, field := range v {
			if !asksForDefault(field) && field != 0.0 && field != "0" {
				return false
			}
		}
		return true
	}
	return false
}

func (p *parser) fail(name, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: "+format, append([]any{name}, args...)...))
}

func (p *parser) text(name string, v any, to *string) {
	s, ok := v.(string)
	if !ok {
		p.fail(name, "%v is no text", v)
		return
	}
	*to = s
}

func (p *parser) texts(name string, v any, to *[]string) {
	list, ok := v.([]any)
	if !ok {
		p.fail(name, "%v is no list", v)
		return
	}
	for i, e := range list {
		var s string
		p.text(fmt.Sprintf("%s[%d]", name, i), e, &s)
		*to = append(*to, s)
	}
}

func (p *parser) truth(name string, v any, to **bool) {
	b, ok := v.(bool)
	if !ok {
		p.fail(name, "%v is neither true nor false", v)
		return
	}
	*to = &b
}

// resolvConf: an empty one asks for none.
func (p *parser) resolvConf(name string, v any) {
	var path string
	p.path(name, v, &path)
	p.cfg.ResolvConf = &path
}

func (p *parser) path(name string, v any, to *string) {
	p.text(name, v, to)
	if *to != "" && !filepath.IsAbs(*to) {
		*to = filepath.Join(p.dir, *to)
	}
}

// duration takes what metav1.Duration takes. Zero asks for the default, as in
// the kubelet's own defaulting.
func (p *parser) duration(name string, v any, to **time.Duration) {
	s, ok := v.(string)
	if !ok {
		p.fail(name, "%v is no duration; write one such as 20s or 1m30s", v)
		return
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		p.fail(name, "%q is no duration; write one such as 20s or 1m30s", s)
	case d < 0:
		p.fail(name, "%q is negative", s)
	case d > 0:
		*to = &d
	}
}

func (p *parser) number(name string, v any, low, high int, to **int) {
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || f < float64(low) || f > float64(high) {
		p.fail(name, "%v is no whole number from %d to %d", v, low, high)
		return
	}
	n := int(f)
	*to = &n
}

func (p *parser) headers(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "want a map of header to list of values") // not repeated: it may be a secret
		return
	}
	p.cfg.StaticPodURLHeader = map[string][]string{}
	for _, key := range sortedKeys(m) {
		list, ok := m[key].([]any)
		if !ok {
			p.fail(name+"."+key, "want a list of values, such as [\"token\"]")
			continue
		}
		for i, e := range list {
			s, ok := e.(string)
			if !ok {
				p.fail(fmt.Sprintf("%s.%s[%d]", name, key, i), "want text; put it in quotes")
				continue
			}
			p.cfg.StaticPodURLHeader[key] = append(p.cfg.StaticPodURLHeader[key], s)
		}
	}
}

func (p *parser) logFiles(name string, v any) {
	p.number(name, v, 2, math.MaxInt32, &p.cfg.Garbage.ContainerLogMaxFiles)
}

func (p *parser) parallelPulls(name string, v any) {
	p.number(name, v, 1, math.MaxInt32, &p.cfg.MaxParallelImagePulls)
}

// serializePulls matters only when true: one pull at a time. False leaves
// podstead's own bound or maxParallelImagePulls.
func (p *parser) serializePulls(name string, v any) {
	b, ok := v.(bool)
	if !ok {
		p.fail(name, "%v is neither true nor false", v)
		return
	}
	if !b {
		return
	}
	if n := p.cfg.MaxParallelImagePulls; n != nil && *n != 1 {
		p.fail(name, "true contradicts maxParallelImagePulls %d; take one of them out", *n)
		return
	}
	one := 1
	p.cfg.MaxParallelImagePulls = &one
}

func (p *parser) crashLoop(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "%v is no map", v)
		return
	}
	for _, key := range sortedKeys(m) {
		if key != "maxContainerRestartPeriod" {
			p.fail(name+"."+key, "unknown field; did you mean maxContainerRestartPeriod?")
			continue
		}
		p.duration(name+"."+key, m[key], &p.cfg.MaxContainerRestartPeriod)
	}
	if d := p.cfg.MaxContainerRestartPeriod; d != nil && (*d < time.Second || *d > 5*time.Minute) {
		p.fail(name+".maxContainerRestartPeriod", "%s is not between 1s and 5m", *d)
	}
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// suggestion names the known field that differs least, if one is close.
func suggestion(name string) string {
	if best := suggest.Nearest(name, known); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}
