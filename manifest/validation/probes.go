package validation

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// stopSignals are the valid stop signals of a Linux container.
var stopSignals = []v1.Signal{
	v1.SIGABRT, v1.SIGALRM, v1.SIGBUS, v1.SIGCHLD, v1.SIGCLD, v1.SIGCONT, v1.SIGFPE, v1.SIGHUP, v1.SIGILL,
	v1.SIGINT, v1.SIGIO, v1.SIGIOT, v1.SIGKILL, v1.SIGPIPE, v1.SIGPOLL, v1.SIGPROF, v1.SIGPWR, v1.SIGQUIT,
	v1.SIGSEGV, v1.SIGSTKFLT, v1.SIGSTOP, v1.SIGSYS, v1.SIGTERM, v1.SIGTRAP, v1.SIGTSTP, v1.SIGTTIN,
	v1.SIGTTOU, v1.SIGURG, v1.SIGUSR1, v1.SIGUSR2, v1.SIGVTALRM, v1.SIGWINCH, v1.SIGXCPU, v1.SIGXFSZ,
	v1.SIGRTMIN, v1.SIGRTMINPLUS1, v1.SIGRTMINPLUS2, v1.SIGRTMINPLUS3, v1.SIGRTMINPLUS4, v1.SIGRTMINPLUS5,
	v1.SIGRTMINPLUS6, v1.SIGRTMINPLUS7, v1.SIGRTMINPLUS8, v1.SIGRTMINPLUS9, v1.SIGRTMINPLUS10,
	v1.SIGRTMINPLUS11, v1.SIGRTMINPLUS12, v1.SIGRTMINPLUS13, v1.SIGRTMINPLUS14, v1.SIGRTMINPLUS15,
	v1.SIGRTMAXMINUS14, v1.SIGRTMAXMINUS13, v1.SIGRTMAXMINUS12, v1.SIGRTMAXMINUS11, v1.SIGRTMAXMINUS10,
	v1.SIGRTMAXMINUS9, v1.SIGRTMAXMINUS8, v1.SIGRTMAXMINUS7, v1.SIGRTMAXMINUS6, v1.SIGRTMAXMINUS5,
	v1.SIGRTMAXMINUS4, v1.SIGRTMAXMINUS3, v1.SIGRTMAXMINUS2, v1.SIGRTMAXMINUS1, v1.SIGRTMAX,
}

// handler contains the actions of a probe or lifecycle hook.
type handler struct {
	exec  *v1.ExecAction
	http  *v1.HTTPGetAction
	tcp   *v1.TCPSocketAction
	grpc  *v1.GRPCAction
	sleep *v1.SleepAction
}

func (v *validator) probes(path *field.Path, c *v1.Container) {
	const once = "must be 1 for liveness and startup probes"
	if p := c.LivenessProbe; p != nil {
		at := path.Child("livenessProbe")
		v.probe(at, p)
		if p.SuccessThreshold != 1 {
			v.invalid(at.Child("successThreshold"), p.SuccessThreshold, once)
		}
	}
	if p := c.ReadinessProbe; p != nil {
		at := path.Child("readinessProbe")
		v.probe(at, p)
		if p.TerminationGracePeriodSeconds != nil {
			v.invalid(at.Child("terminationGracePeriodSeconds"), *p.TerminationGracePeriodSeconds,
				"a readiness probe never stops a container; remove the field")
		}
	}
	if p := c.StartupProbe; p != nil {
		at := path.Child("startupProbe")
		v.probe(at, p)
		if p.SuccessThreshold != 1 {
			v.invalid(at.Child("successThreshold"), p.SuccessThreshold, once)
		}
	}
}

func (v *validator) probe(path *field.Path, p *v1.Probe) {
	v.handler(path, handler{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC},
		"exec, httpGet, tcpSocket, grpc")
	v.notNegative(path.Child("initialDelaySeconds"), int64(p.InitialDelaySeconds))
	v.notNegative(path.Child("timeoutSeconds"), int64(p.TimeoutSeconds))
	v.notNegative(path.Child("periodSeconds"), int64(p.PeriodSeconds))
	v.notNegative(path.Child("successThreshold"), int64(p.SuccessThreshold))
	v.notNegative(path.Child("failureThreshold"), int64(p.FailureThreshold))
	if grace := p.TerminationGracePeriodSeconds; grace != nil && *grace <= 0 {
		v.invalid(path.Child("terminationGracePeriodSeconds"), *grace, "must be 1 or more")
	}
}

func (v *validator) lifecycle(path *field.Path, lifecycle *v1.Lifecycle) {
	if lifecycle == nil {
		return
	}
	hook := func(name string, h *v1.LifecycleHandler) {
		if h != nil {
			v.handler(path.Child(name), handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep},
				"exec, httpGet, tcpSocket, sleep")
		}
	}
	hook("postStart", lifecycle.PostStart)
	hook("preStop", lifecycle.PreStop)
	if signal := lifecycle.StopSignal; signal != nil {
		v.stopSignal(path.Child("stopSignal"), *signal)
	}
}

func (v *validator) stopSignal(path *field.Path, signal v1.Signal) {
	switch os := v.spec.OS; {
	case os == nil:
		v.forbidden(path, "needs spec.os.name, since signals depend on the operating system; set it to linux")
	case os.Name == v1.Windows:
		oneOf(v, path, signal, v1.SIGKILL, v1.SIGTERM)
	case os.Name == v1.Linux:
		oneOf(v, path, signal, stopSignals...)
	}
}

// handler validates the one action of a probe or hook; kinds are the valid
// ones.
func (v *validator) handler(path *field.Path, h handler, kinds string) {
	actions := 0
	first := func(name string) bool {
		actions++
		if actions > 1 {
			v.forbidden(path.Child(name), "only one of "+kinds+" can be set; remove the others")
		}
		return actions == 1
	}
	if h.exec != nil && first("exec") && len(h.exec.Command) == 0 {
		v.required(path.Child("exec", "command"), "must be the program to run and its arguments")
	}
	if h.http != nil && first("httpGet") {
		v.httpGet(path.Child("httpGet"), h.http)
	}
	if h.tcp != nil && first("tcpSocket") {
		v.portOrName(path.Child("tcpSocket", "port"), h.tcp.Port)
	}
	if h.grpc != nil && first("grpc") {
		v.portOrName(path.Child("grpc", "port"), intstr.FromInt32(h.grpc.Port))
	}
	if h.sleep != nil && first("sleep") {
		if grace := v.spec.TerminationGracePeriodSeconds; grace != nil && (h.sleep.Seconds < 0 || h.sleep.Seconds > *grace) {
			v.invalid(path.Child("sleep"), h.sleep.Seconds,
				fmt.Sprintf("must be between 0 and the pod's terminationGracePeriodSeconds, %d", *grace))
		}
	}
	if actions == 0 {
		v.required(path, "must have one of "+kinds)
	}
}

func (v *validator) httpGet(path *field.Path, get *v1.HTTPGetAction) {
	v.requireSet(path.Child("path"), get.Path, "must be the path to request, such as /healthz")
	v.portOrName(path.Child("port"), get.Port)
	if schemes := []v1.URIScheme{v1.URISchemeHTTP, v1.URISchemeHTTPS}; !slices.Contains(schemes, get.Scheme) {
		v.add(field.NotSupported(path.Child("scheme"), get.Scheme, schemes))
	}
	for i, header := range get.HTTPHeaders {
		v.rules(path.Child("httpHeaders").Index(i).Child("name"), header.Name, utilvalidation.IsHTTPHeaderName(header.Name))
	}
}

func (v *validator) portOrName(path *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.String {
		v.rules(path, port.StrVal, utilvalidation.IsValidPortName(port.StrVal))
		return
	}
	v.rules(path, port.IntVal, utilvalidation.IsValidPortNum(int(port.IntVal)))
}
