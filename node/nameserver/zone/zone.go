package zone

import (
	"net/netip"
	"slices"
	"strings"
)

// Zone is what the name server knows of the pods of this node. All names are in lower case and
// have no trailing dot. The zero value has no names.
type Zone struct {
	// Names are the records by full name.
	Names map[string]Records `json:"names,omitempty"`
	// Reverse are the names of each address, the first one first.
	Reverse map[netip.Addr][]string `json:"reverse,omitempty"`
	// Namespaces are those of the pods by address, for names without a namespace. An address of
	// the node, which pods with hostNetwork share, has none.
	Namespaces map[netip.Addr]string `json:"namespaces,omitempty"`
}

// Records are the records of one name. A name with neither exists and has no address: no pod of
// it is Ready.
type Records struct {
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Ports     []Port       `json:"ports,omitempty"`
	// Alias is the name that this one stands for; empty for none.
	Alias string `json:"alias,omitempty"`
}

// Port is an SRV record: a port, and the name that has its address.
type Port struct {
	Target string `json:"target"`
	Port   uint16 `json:"port"`
}

// serviceLabel separates the namespace from the cluster domain in names of Services.
const serviceLabel = "svc"

// Name returns the full name of a pod or Service.
func Name(name, namespace, domain string) string {
	return strings.ToLower(name + "." + namespace + "." + serviceLabel + "." + domain)
}

// Apex returns the domain below which all names of pods and Services are.
func Apex(domain string) string { return serviceLabel + "." + strings.ToLower(domain) }

// add adds addresses to a name, and the name if it does not exist.
func (z *Zone) add(name string, addresses []netip.Addr) {
	records := z.Names[name]
	for _, a := range addresses {
		if !slices.Contains(records.Addresses, a) {
			records.Addresses = append(records.Addresses, a)
		}
	}
	slices.SortFunc(records.Addresses, netip.Addr.Compare)
	z.Names[name] = records
}

func (z *Zone) addPort(name string, port Port) {
	records := z.Names[name]
	if !slices.Contains(records.Ports, port) {
		records.Ports = append(records.Ports, port)
	}
	z.Names[name] = records
}

// addReverse adds a name of addresses.
func (z *Zone) addReverse(addresses []netip.Addr, name string) {
	for _, a := range addresses {
		if !slices.Contains(z.Reverse[a], name) {
			z.Reverse[a] = append(z.Reverse[a], name)
		}
	}
}
