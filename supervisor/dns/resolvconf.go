package dns

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// What the resolvers of the C libraries take, as the kubelet has it; musl
// takes no search list that is longer.
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearch      = 255
	maxSearchChars = 2048
)

// parseResolvConf reads what resolv.conf(5) describes: name servers add up,
// the last of the search lists wins, options are kept by name. The kubelet
// passes over domain lines; here one is a search list of a single entry, as it
// is to the C library.
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

// searchList is a list without the dots that end names, and without the root.
func searchList(names []string) []string {
	var list []string
	for _, name := range names {
		if name = strings.TrimSuffix(name, "."); name != "" {
			list = append(list, name)
		}
	}
	return list
}

// withOptions is the list with more options. One of the same name, such as
// ndots, takes the place of the one before.
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

// mergeOptions is the list with a pod's own options, which win.
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

// unique are the entries of both lists, each once.
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

// fit is what of a resolv.conf the C library takes, and what that leaves out.
func applyLimits(r cri.DNS) (cri.DNS, []string) {
	var omitted []string
	if len(r.Servers) > maxServers {
		omitted = append(omitted, fmt.Sprintf("a resolv.conf takes %d nameservers: %s left out, %s kept", maxServers,
			strings.Join(r.Servers[maxServers:], " "), strings.Join(r.Servers[:maxServers], " ")))
		r.Servers = r.Servers[:maxServers]
	}
	var kept, long []string
	chars := -1 // a space comes before each but the first
	for _, search := range r.Searches {
		if len(search) > maxSearch || len(kept) == maxSearches || chars+1+len(search) > maxSearchChars {
			long = append(long, search)
			continue
		}
		kept = append(kept, search)
		chars += 1 + len(search)
	}
	if len(long) > 0 {
		omitted = append(omitted, fmt.Sprintf("a search list takes %d domains of %d characters, %d in all: %s left out, %s kept",
			maxSearches, maxSearch, maxSearchChars, strings.Join(long, " "), strings.Join(kept, " ")))
	}
	r.Searches = kept
	return r, omitted
}
