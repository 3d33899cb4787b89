package dns

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// Limits of the resolvers of C libraries, with the kubelet's values; musl accepts no
// longer search list.
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearch      = 255
	maxSearchChars = 2048
)

// parseResolvConf parses the format of resolv.conf(5): name servers accumulate, the
// last search list wins, options are kept by name. The kubelet ignores domain lines;
// here one is a search list of a single entry, as in the C library.
func parseResolvConf(text string) cri.DNS {
	var r cri.DNS
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") || strings.HasPrefix(fields[0], ";") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			r.Servers = union(r.Servers, fields[1:2])
		case "domain":
			r.Searches = searchList(fields[1:2])
		case "search":
			r.Searches = searchList(fields[1:])
		case "options":
			r.Options = withOptions(r.Options, fields[1:])
		}
	}
	return r
}

// searchList returns the names without trailing dots, and without the root.
func searchList(names []string) []string {
	var list []string
	for _, name := range names {
		if name = strings.TrimSuffix(name, "."); name != "" {
			list = append(list, name)
		}
	}
	return list
}

// withOptions returns the list with more options. One of the same name, such as ndots,
// replaces the previous one.
func withOptions(list, more []string) []string {
	list = slices.Clone(list)
	for _, option := range more {
		name, _, _ := strings.Cut(option, ":")
		at := slices.IndexFunc(list, func(o string) bool {
			n, _, _ := strings.Cut(o, ":")
			return n == name
		})
		if at >= 0 {
			list[at] = option
		} else {
			list = append(list, option)
		}
	}
	return list
}

// mergeOptions returns the list with a pod's own options, which take precedence.
func mergeOptions(list []string, own []v1.PodDNSConfigOption) []string {
	var more []string
	for _, o := range own {
		option := o.Name
		if o.Value != nil && *o.Value != "" {
			option += ":" + *o.Value
		}
		more = append(more, option)
	}
	return withOptions(list, more)
}

// union returns the entries of both lists, each once.
func union(a, b []string) []string {
	var all []string
	for _, list := range [][]string{a, b} {
		for _, s := range list {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// applyLimits returns the settings within the limits of the C library, and one
// sentence about each omission.
func applyLimits(r cri.DNS) (cri.DNS, []string) {
	var omitted []string
	if len(r.Servers) > maxServers {
		omitted = append(omitted, fmt.Sprintf("a resolv.conf allows %d nameservers: %s omitted, %s kept", maxServers,
			strings.Join(r.Servers[maxServers:], " "), strings.Join(r.Servers[:maxServers], " ")))
		r.Servers = r.Servers[:maxServers]
	}
	var kept, dropped []string
	chars := -1 // a space precedes each but the first
	for _, search := range r.Searches {
		if len(search) > maxSearch || len(kept) == maxSearches || chars+1+len(search) > maxSearchChars {
			dropped = append(dropped, search)
			continue
		}
		kept = append(kept, search)
		chars += 1 + len(search)
	}
	if len(dropped) > 0 {
		omitted = append(omitted, fmt.Sprintf("a search list allows %d domains of %d characters, %d in total: %s omitted, "+
			"%s kept",
			maxSearches, maxSearch, maxSearchChars, strings.Join(dropped, " "), strings.Join(kept, " ")))
	}
	r.Searches = kept
	return r, omitted
}
