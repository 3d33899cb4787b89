package validation

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestTranslateAnnotations(t *testing.T) {
	const (
		seccompOf  = "container.seccomp.security.alpha.kubernetes.io/web: "
		appArmorOf = "container.apparmor.security.beta.kubernetes.io/web: "
	)
	for name, c := range map[string]struct {
		annotations, spec string
		// pod, seccomp and appArmor are the profiles of the pod and its container.
		pod, seccomp, appArmor string
		fault                  string
	}{
		"seccomp of the pod": {annotations: "seccomp.security.alpha.kubernetes.io/pod: runtime/default",
			pod: "RuntimeDefault"},
		"docker/default": {annotations: "seccomp.security.alpha.kubernetes.io/pod: docker/default",
			pod: "RuntimeDefault"},
		"seccomp of the container": {annotations: seccompOf + "unconfined",
			spec: "securityContext: {seccompProfile: {type: RuntimeDefault}}", pod: "RuntimeDefault", seccomp: "Unconfined"},
		"a seccomp file":       {annotations: seccompOf + "localhost/a/b.json", seccomp: "Localhost a/b.json"},
		"AppArmor":             {annotations: appArmorOf + "runtime/default", appArmor: "RuntimeDefault"},
		"AppArmor, unconfined": {annotations: appArmorOf + "unconfined", appArmor: "Unconfined"},
		"an AppArmor profile":  {annotations: appArmorOf + "localhost/web", appArmor: "Localhost web"},
		"AppArmor, empty":      {annotations: appArmorOf + "''"},
		"the same field": {annotations: seccompOf + "runtime/default",
			spec:    "containers: [{name: web, image: web, securityContext: {seccompProfile: {type: RuntimeDefault}}}]",
			seccomp: "RuntimeDefault"},
		"another field": {annotations: seccompOf + "runtime/default",
			spec:    "containers: [{name: web, image: web, securityContext: {seccompProfile: {type: Unconfined}}}]",
			seccomp: "Unconfined",
			fault:   "spec.containers[0].securityContext.seccompProfile.type"},
		"another field, AppArmor": {annotations: appArmorOf + "localhost/a", spec: "containers: [{name: web, image: web, " +
			"securityContext: {appArmorProfile: {type: Localhost, localhostProfile: b}}}]", appArmor: "Localhost b",
			fault: "spec.containers[0].securityContext.appArmorProfile.localhostProfile"},
		"no such profile": {annotations: seccompOf + "strict",
			fault: "metadata.annotations[container.seccomp.security.alpha.kubernetes.io/web]"},
		"no name": {annotations: appArmorOf + "localhost/",
			fault: "metadata.annotations[container.apparmor.security.beta.kubernetes.io/web]"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := defaultedPod(t, "metadata: {annotations: {"+c.annotations+"}}\nspec: {"+c.spec+"}")
			TranslateAnnotations(pod)
			own := pod.Spec.Containers[0].SecurityContext
			if own == nil {
				own = &v1.SecurityContext{}
			}
			seccomp := func(p *v1.SeccompProfile) string {
				if p == nil {
					return ""
				}
				return profileText(string(p.Type), p.LocalhostProfile)
			}
			appArmor := ""
			if p := own.AppArmorProfile; p != nil {
				appArmor = profileText(string(p.Type), p.LocalhostProfile)
			}
			if got := []string{seccomp(pod.Spec.SecurityContext.SeccompProfile), seccomp(own.SeccompProfile),
				appArmor}; !slices.Equal(got, []string{c.pod, c.seccomp, c.appArmor}) {
				t.Errorf("got %q", got)
			}
			var faults []string
			for _, fault := range CheckPod(pod) {
				faults = append(faults, fault.Path)
			}
			if strings.Join(faults, " ") != c.fault {
				t.Errorf("faults %q, want %q", faults, c.fault)
			}
			if c.fault == "" && len(Warnings(pod)) != 1 {
				t.Errorf("warnings %v, want one", Warnings(pod))
			}
		})
	}
}

func profileText(kind string, file *string) string {
	if file != nil {
		kind += " " + *file
	}
	return kind
}

func TestAnnotationsWithoutEffect(t *testing.T) {
	pod := defaultedPod(t,
		`metadata: {annotations: {kubernetes.io/ingress-bandwidth: 1M, kubernetes.io/egress-bandwidth: fast,
  container.seccomp.security.alpha.kubernetes.io/gone: unconfined, example.com/own: x}}
spec: {hostNetwork: true}`)
	var got []string
	for _, w := range Warnings(pod) {
		if !w.Warning {
			t.Errorf("rejects the pod: %v", w)
		}
		got = append(got, w.Path)
	}
	want := []string{"metadata.annotations[container.seccomp.security.alpha.kubernetes.io/gone]",
		"metadata.annotations[kubernetes.io/egress-bandwidth]", "metadata.annotations[kubernetes.io/ingress-bandwidth]"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if faults := CheckPod(pod); len(faults) > 0 {
		t.Errorf("rejected: %v", faults)
	}
	pod.Spec.HostNetwork = false
	if faults := CheckPod(pod); len(faults) != 1 ||
		faults[0].Path != "metadata.annotations[kubernetes.io/egress-bandwidth]" ||
		!strings.Contains(faults[0].Remedy, "from 1k to 1P") {
		t.Errorf("faults %v", faults)
	}
}
