package kubeletconfig

// Remote are the fields about the ports for remote clients.
type Remote struct {
	Address              string
	Port, ReadOnlyPort   *int
	CertFile, KeyFile    string
	ClientCAFile         string
	MinVersion           string
	CipherSuites         []string
	Debugging, Profiling *bool
	// RotateCertificates and ServerTLSBootstrap request certificates from the cluster.
	RotateCertificates, ServerTLSBootstrap *bool
	Reviews                                Reviews
}

// remoteFields are the fields of Remote.
var remoteFields = map[string]func(*parser, string, any){
	"address":                 func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Remote.Address) },
	"port":                    func(p *parser, n string, v any) { p.number(n, v, 0, 65535, &p.cfg.Remote.Port) },
	"readOnlyPort":            func(p *parser, n string, v any) { p.number(n, v, 0, 65535, &p.cfg.Remote.ReadOnlyPort) },
	"tlsCertFile":             func(p *parser, n string, v any) { p.path(n, v, &p.cfg.Remote.CertFile) },
	"tlsPrivateKeyFile":       func(p *parser, n string, v any) { p.path(n, v, &p.cfg.Remote.KeyFile) },
	"tlsMinVersion":           func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Remote.MinVersion) },
	"tlsCipherSuites":         func(p *parser, n string, v any) { p.texts(n, v, &p.cfg.Remote.CipherSuites) },
	"enableDebuggingHandlers": func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.Remote.Debugging) },
	"enableProfilingHandler":  func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.Remote.Profiling) },
	"rotateCertificates":      func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.Remote.RotateCertificates) },
	"serverTLSBootstrap":      func(p *parser, n string, v any) { p.boolean(n, v, &p.cfg.Remote.ServerTLSBootstrap) },
	"authentication":          (*parser).authentication,
}

// mapFields returns the fields of a map that are set. Unknown fields are errors.
func (p *parser) mapFields(name string, v any, known ...string) map[string]any {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "%v is not a map", v)
		return nil
	}
	set := map[string]any{}
	for _, key := range sortedKeys(m) {
		found := false
		for _, k := range known {
			found = found || k == key
		}
		switch {
		case !found:
			p.fail(name+"."+key, "unknown field; known fields are %v", known)
		case m[key] != nil:
			set[key] = m[key]
		}
	}
	return set
}
