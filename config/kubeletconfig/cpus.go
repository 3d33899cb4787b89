package kubeletconfig

// CPUs are the fields of the CPU manager.
type CPUs struct {
	// Policy is empty if not set.
	Policy string
	// Options are the values of cpuManagerPolicyOptions, nil if not set.
	Options map[string]string
	// Reserved is reservedSystemCPUs, a list such as 0-1.
	Reserved string
}

// cpuFields are the fields of CPUs. The caller of this package validates their values.
var cpuFields = map[string]func(*parser, string, any){
	"cpuManagerPolicy":        func(p *parser, n string, v any) { p.text(n, v, &p.cfg.CPUs.Policy) },
	"cpuManagerPolicyOptions": func(p *parser, n string, v any) { p.textMap(n, v, &p.cfg.CPUs.Options) },
	"reservedSystemCPUs":      func(p *parser, n string, v any) { p.text(n, v, &p.cfg.CPUs.Reserved) },
}
