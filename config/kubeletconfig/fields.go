package kubeletconfig

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/podstead/podstead/config/configfile"
	"github.com/podstead/podstead/internal/imagepolicy"
	"github.com/podstead/podstead/internal/suggest"
)

// parser fills cfg field by field and collects the errors.
type parser struct {
	cfg  *Config
	doc  *configfile.Document
	hint func(name string) string
	errs []error
}

// fields are the supported fields without a group of their own.
var fields = map[string]func(*parser, string, any){
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
	"seccompDefault":                 func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.SeccompDefault) },
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
	"clusterDNS":                             func(p *parser, n string, v any) { p.texts(n, v, &p.cfg.ClusterDNS) },
	"podCIDR":                                func(p *parser, n string, v any) { p.text(n, v, &p.cfg.PodCIDR) },
	"clusterDomain":                          func(p *parser, n string, v any) { p.text(n, v, &p.cfg.ClusterDomain) },
	"resolvConf":                             (*parser).resolvConf,
	"imageMinimumGCAge":                      func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.Garbage.ImageMinimumGCAge) },
	"imageMaximumGCAge":                      func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.Garbage.ImageMaximumGCAge) },
	"maxParallelImagePulls":                  (*parser).parallelPulls,
	"serializeImagePulls":                    (*parser).serializePulls,
	"imagePullCredentialsVerificationPolicy": (*parser).imageVerification,
	"preloadedImagesVerificationAllowlist":   (*parser).imageAllowlist,

	"crashLoopBackOff":     (*parser).crashLoop,
	"authorization":        (*parser).authorization,
	"tracing":              (*parser).tracing,
	"volumeStatsAggPeriod": func(p *parser, n string, v any) { p.duration(n, v, &p.cfg.VolumeStatsAggPeriod) },
}

// groups are all supported fields.
var groups = []map[string]func(*parser, string, any){fields, cgroupFields, shutdownFields, evictionFields, remoteFields, nodeFields, rateFields, cpuFields, memoryFields, memoryManagerFields, topologyFields}

// fixed are fields of which only one value is supported: what podstead does anyway. Any other
// value is an error for those in resourceFields, and ignored for the others.
var fixed = map[string]any{
	"cgroupsPerQOS":         true,
	"failCgroupV1":          false,
	"protectKernelDefaults": true, // podstead changes no sysctl of the host
	"runOnce":               false,
	"enableServer":          true,
	"configMapAndSecretChangeDetectionStrategy": "Watch",
	"enableContentionProfiling":                 false,
	"enableDebugFlagsHandler":                   false,
	"enableSystemLogHandler":                    true, // for admins
	"enableSystemLogQuery":                      false,
	"kernelMemcgNotification":                   false,
	"localStorageCapacityIsolation":             true,
	"oomScoreAdj":                               -999.0,
	"registryPullQPS":                           0.0, // only the number of pulls at once is limited
	"syncFrequency":                             "1m0s",
	"userNamespaces":                            map[string]any{"idsPerPod": 65536.0},
}

// AddFixed adds the fields of which only one value is supported to a KubeletConfiguration.
func AddFixed(all map[string]any) {
	for name, v := range fixed {
		all[name] = v
	}
}

// Masked stands for a secret in the configuration that a daemon reports.
const Masked = "<masked>"

// IsMasked reports whether a value has masked secrets instead of the real ones.
func IsMasked(value string) bool {
	return strings.Contains(value, Masked) || strings.Contains(value, "%3Cmasked%3E")
}

// field parses one field of the file.
func (p *parser) field(name string, value any) {
	if value == nil {
		return // like a field that is not set
	}
	for _, group := range groups {
		if apply, ok := group[name]; ok {
			apply(p, name, value)
			return
		}
	}
	if !slices.Contains(known, name) {
		p.fail(name, "unknown field%s", p.suggestion(name))
		return
	}
	if want, ok := fixed[name]; ok && reflect.DeepEqual(want, value) || isDefault(value) {
		return
	}
	if u, ok := resourceFields[name]; ok {
		p.refuse(name, valueText(value), u)
		return
	}
	p.cfg.Ignored = append(p.cfg.Ignored, name)
}

// isDefault reports whether a value stands for the kubelet's default. kubeadm writes every
// field that is not a pointer in Go, most of them as zero values. A number or boolean at the
// top level may be intended.
func isDefault(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || v == "0s"
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, field := range v {
			if !isDefault(field) && field != 0.0 && field != "0" {
				return false
			}
		}
		return true
	}
	return false
}

func (p *parser) fail(name, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: %s: "+format, append([]any{p.doc.Position(name), name}, args...)...))
}

// text parses a string.
func (p *parser) text(name string, v any, to *string) {
	s, ok := v.(string)
	if !ok {
		p.fail(name, "%v is not a string", v)
		return
	}
	*to = s
}

// texts parses a list of strings.
func (p *parser) texts(name string, v any, to *[]string) {
	list, ok := v.([]any)
	if !ok {
		p.fail(name, "%v is not a list", v)
		return
	}
	for i, e := range list {
		var s string
		p.text(fmt.Sprintf("%s[%d]", name, i), e, &s)
		*to = append(*to, s)
	}
}

// boolean parses a boolean.
func (p *parser) boolean(name string, v any, to **bool) {
	b, ok := v.(bool)
	if !ok {
		p.fail(name, "%v is not a boolean", v)
		return
	}
	*to = &b
}

// resolvConf parses resolvConf; an empty path means no file.
func (p *parser) resolvConf(name string, v any) {
	var path string
	p.path(name, v, &path)
	p.cfg.ResolvConf = &path
}

// path parses a path and makes it absolute.
func (p *parser) path(name string, v any, to *string) {
	p.text(name, v, to)
	if *to != "" && !filepath.IsAbs(*to) {
		*to = filepath.Join(p.doc.Dir(name), *to)
	}
}

// duration parses a metav1.Duration. Zero means the default, as in the kubelet's defaulting.
func (p *parser) duration(name string, v any, to **time.Duration) {
	s, ok := v.(string)
	if !ok {
		p.fail(name, "%v is not a valid duration, such as 20s or 1m30s", v)
		return
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		p.fail(name, "%q is not a valid duration, such as 20s or 1m30s", s)
	case d < 0:
		p.fail(name, "%q is negative", s)
	case d > 0:
		*to = &d
	}
}

func isInteger(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// number parses an integer in a range.
func (p *parser) number(name string, v any, low, high int, to **int) {
	f, ok := v.(float64)
	if text, quoted := v.(string); quoted && isInteger(text) {
		p.fail(name, "is the string %q; must be an integer from %d to %d, without quotes", text, low, high)
		return
	}
	if !ok || f != math.Trunc(f) || f < float64(low) || f > float64(high) {
		p.fail(name, "%v must be an integer from %d to %d", v, low, high)
		return
	}
	n := int(f)
	*to = &n
}

func (p *parser) headers(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "must be a map of header to list of values") // without the value, which may be a secret
		return
	}
	p.cfg.StaticPodURLHeader = map[string][]string{}
	for _, key := range sortedKeys(m) {
		list, ok := m[key].([]any)
		if !ok {
			p.fail(name+"."+key, "must be a list of values, such as [\"token\"]")
			continue
		}
		for i, e := range list {
			s, ok := e.(string)
			if !ok {
				p.fail(fmt.Sprintf("%s.%s[%d]", name, key, i), "must be a string; quote it")
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

// serializePulls parses serializeImagePulls. Only true has an effect: one pull at a time. False
// leaves podstead's default or maxParallelImagePulls.
func (p *parser) serializePulls(name string, v any) {
	b, ok := v.(bool)
	if !ok {
		p.fail(name, "%v is not a boolean", v)
		return
	}
	if !b {
		return
	}
	if n := p.cfg.MaxParallelImagePulls; n != nil && *n != 1 {
		p.fail(name, "true conflicts with maxParallelImagePulls %d; remove one of them", *n)
		return
	}
	one := 1
	p.cfg.MaxParallelImagePulls = &one
}

// imageVerification parses the policy. An empty one is the default, as in the kubelet.
func (p *parser) imageVerification(name string, v any) {
	to := &p.cfg.ImagePullCredentialsVerificationPolicy
	p.text(name, v, to)
	if *to == "" {
		return
	}
	if err := imagepolicy.CheckMode(*to); err != nil {
		p.fail(name, "%w", err)
	}
}

func (p *parser) imageAllowlist(name string, v any) {
	list := &p.cfg.PreloadedImagesVerificationAllowlist
	p.texts(name, v, list)
	for i, pattern := range *list {
		if err := imagepolicy.CheckPattern(pattern); err != nil {
			p.fail(fmt.Sprintf("%s[%d]", name, i), "%w", err)
		}
	}
}

// checkAllowlist rejects an allowlist that would have no effect, as the kubelet does.
func (p *parser) checkAllowlist() {
	if mode := p.cfg.ImagePullCredentialsVerificationPolicy; len(p.cfg.PreloadedImagesVerificationAllowlist) > 0 && mode != imagepolicy.NeverVerifyAllowlisted {
		p.fail("preloadedImagesVerificationAllowlist", "has an effect only with imagePullCredentialsVerificationPolicy: %s; set that too, or remove the list", imagepolicy.NeverVerifyAllowlisted)
	}
}

func (p *parser) crashLoop(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "%v is not a map", v)
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
		p.fail(name+".maxContainerRestartPeriod", "%s must be from 1s to 5m", *d)
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

// suggestion returns a hint at the field that was probably meant.
func (p *parser) suggestion(name string) string {
	if p.hint != nil {
		if hint := p.hint(name); hint != "" {
			return hint
		}
	}
	if best := suggest.Nearest(name, known); best != "" {
		return "; did you mean " + best + "?"
	}
	return "; see docs/configuration.md for the fields"
}

// SupportedFields returns the names of the top-level fields that are read, sorted.
func SupportedFields() []string {
	var names []string
	for _, group := range groups {
		names = slices.AppendSeq(names, maps.Keys(group))
	}
	slices.Sort(names)
	return names
}
