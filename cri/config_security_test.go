package cri

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"
)

// securePod decodes the spec of a pod with a container "a".
func securePod(t *testing.T, spec string) *v1.Pod {
	t.Helper()
	pod := desiredPod("", []string{"a"})
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	return pod
}

func number64(n *runtimeapi.Int64Value) int64 {
	if n == nil {
		return -1
	}
	return n.Value
}

func TestRunAs(t *testing.T) {
	uid := func(n int64) *runtimeapi.Image { return &runtimeapi.Image{Uid: &runtimeapi.Int64Value{Value: n}} }
	for name, tc := range map[string]struct {
		spec       string
		image      *runtimeapi.Image
		id, group  int64 // -1: none
		user, want string
		asks       bool
	}{
		"nothing":         {spec: `{}`, id: -1, group: -1},
		"the pod's":       {spec: `{securityContext: {runAsUser: 1, runAsGroup: 2}}`, id: 1, group: 2},
		"the container's": {spec: `{securityContext: {runAsUser: 1, runAsGroup: 2}, containers: [{name: a, securityContext: {runAsUser: 3}}]}`, id: 3, group: 2},
		"group of the image's user": {spec: `{securityContext: {runAsGroup: 2}}`, image: uid(7), id: 7, group: 2,
			asks: true},
		"group of a named user": {spec: `{securityContext: {runAsGroup: 2}}`, image: &runtimeapi.Image{Username: "www"},
			id: -1, group: 2, user: "www", asks: true},
		"group without a user": {spec: `{securityContext: {runAsGroup: 2}}`, image: &runtimeapi.Image{}, id: 0,
			group: 2, asks: true},
		"not root": {spec: `{securityContext: {runAsNonRoot: true}}`, image: uid(7), id: -1, group: -1,
			asks: true},
		"not root, and it is": {spec: `{securityContext: {runAsNonRoot: true}}`, image: uid(0),
			want: "runAsNonRoot is true and the image runs as root; set runAsUser, or take an image with another user",
			asks: true},
		"not root, user unknown": {spec: `{securityContext: {runAsNonRoot: true}}`, image: &runtimeapi.Image{},
			want: "runAsNonRoot is true and the image runs as root; set runAsUser, or take an image with another user",
			asks: true},
		"not root, user by name": {spec: `{securityContext: {runAsNonRoot: true}}`,
			image: &runtimeapi.Image{Username: "www"},
			want:  `runAsNonRoot is true and the image names its user "www", which may be root under another name; set runAsUser to the number`, asks: true},
		"not root, user 0 requested": {spec: `{securityContext: {runAsNonRoot: true, runAsUser: 0}}`,
			want: "runAsNonRoot is true and runAsUser is 0, which is root; change one of them"},
		"not root, by number":       {spec: `{securityContext: {runAsNonRoot: true, runAsUser: 5}}`, id: 5, group: -1},
		"the container may be root": {spec: `{securityContext: {runAsNonRoot: true, runAsUser: 0}, containers: [{name: a, securityContext: {runAsNonRoot: false}}]}`, id: 0, group: -1},
	} {
		t.Run(name, func(t *testing.T) {
			pod := securePod(t, tc.spec)
			c := &pod.Spec.Containers[0]
			if got := needsImageUser(pod, c); got != tc.asks {
				t.Errorf("looked at the image: %v", got)
			}
			u, err := runAs(pod, c, tc.image)
			if tc.want != "" {
				if err == nil || err.Error() != tc.want {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := number64(number(u.id)); got != tc.id {
				t.Errorf("user %d, want %d", got, tc.id)
			}
			if got := number64(number(u.group)); got != tc.group || u.name != tc.user {
				t.Errorf("group %d, name %q", got, u.name)
			}
		})
	}
}

func TestSandboxSecurity(t *testing.T) {
	pod := securePod(t,
		`{hostUsers: false, securityContext: {runAsUser: 1, runAsGroup: 2, supplementalGroups: [3], fsGroup: 4,
  supplementalGroupsPolicy: Strict, seLinuxOptions: {type: t}, seccompProfile: {type: Unconfined},
  sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}, {name: net/ipv4/conf/eth0.1/forwarding, value: "0"}]},
  initContainers: [{name: i, securityContext: {privileged: true}}]}`)
	config := testConfig().sandbox(pod, 0, SandboxInputs{Users: &UserNamespace{HostID: 65536, Length: 65536}})
	got := config.Linux.SecurityContext
	if number64(got.RunAsUser) != 1 || number64(got.RunAsGroup) != 2 ||
		!slices.Equal(got.SupplementalGroups, []int64{3, 4}) ||
		got.SupplementalGroupsPolicy != runtimeapi.SupplementalGroupsPolicy_Strict || got.SelinuxOptions.GetType() != "t" ||
		!got.Privileged || got.Seccomp.ProfileType != runtimeapi.SecurityProfile_RuntimeDefault {
		t.Errorf("got %v", got)
	}
	users := got.NamespaceOptions.UsernsOptions
	if users.GetMode() != runtimeapi.NamespaceMode_POD || len(users.Uids) != 1 || len(users.Gids) != 1 ||
		users.Uids[0].HostId != 65536 || users.Gids[0].Length != 65536 {
		t.Errorf("users %v", users)
	}
	if want := map[string]string{"net.ipv4.tcp_syncookies": "1",
		"net.ipv4.conf.eth0/1.forwarding": "0"}; !maps.Equal(config.Linux.Sysctls, want) {
		t.Errorf("sysctls %v", config.Linux.Sysctls)
	}
	pod.Spec.SecurityContext.RunAsUser, pod.Spec.InitContainers = nil, nil
	if got := testConfig().sandbox(pod, 0, SandboxInputs{}).Linux.SecurityContext; got.RunAsGroup != nil ||
		got.Privileged || got.NamespaceOptions.UsernsOptions != nil {
		t.Errorf("a group without a user, or more than was requested: %v", got)
	}
}

func TestContainerSecurity(t *testing.T) {
	g := testConfig()
	g.security = Security{SeccompRoot: "/root/seccomp"}
	container := func(spec string, in containerInput) *runtimeapi.ContainerConfig {
		pod := securePod(t, spec)
		return g.container(pod, &pod.Spec.Containers[0], in)
	}
	all := container(
		`{securityContext: {supplementalGroups: [3], seccompProfile: {type: RuntimeDefault}, appArmorProfile: {type: RuntimeDefault}, seLinuxOptions: {type: pods}},
  containers: [{name: a, terminationMessagePath: /m, securityContext: {privileged: true, allowPrivilegeEscalation: true, readOnlyRootFilesystem: true, procMount: Unmasked,
    capabilities: {add: [cap_net_admin, SYS_TIME], drop: [all]}, seLinuxOptions: {type: own, level: s0}, appArmorProfile: {type: Localhost, localhostProfile: p},
    seccompProfile: {type: Localhost, localhostProfile: a/b.json}}}]}`,
		containerInput{Inputs: Inputs{TerminationMessageHost: "/f", Groups: []int64{5}},
			users: &UserNamespace{HostID: 1 << 16, Length: 1 << 16}})
	got := all.Linux.SecurityContext
	if !got.Privileged || got.NoNewPrivs || !got.ReadonlyRootfs || !slices.Equal(got.SupplementalGroups, []int64{3, 5}) ||
		!slices.Equal(got.Capabilities.AddCapabilities, []string{"NET_ADMIN", "SYS_TIME"}) ||
		!slices.Equal(got.Capabilities.DropCapabilities, []string{"ALL"}) ||
		got.SelinuxOptions.Type != "own" || got.SelinuxOptions.Level != "s0" || got.MaskedPaths != nil ||
		got.ReadonlyPaths != nil {
		t.Errorf("got %v", got)
	}
	if got.Seccomp.ProfileType != runtimeapi.SecurityProfile_Localhost ||
		got.Seccomp.LocalhostRef != "/root/seccomp/a/b.json" {
		t.Errorf("seccomp %v", got.Seccomp)
	}
	if got.Apparmor.ProfileType != runtimeapi.SecurityProfile_Localhost || got.Apparmor.LocalhostRef != "p" {
		t.Errorf("AppArmor %v", got.Apparmor)
	}
	if got.NamespaceOptions.UsernsOptions == nil || all.Mounts[0].UidMappings[0].HostId != 1<<16 ||
		all.Mounts[0].GidMappings[0].Length != 1<<16 {
		t.Errorf("users %v, mounts %v", got.NamespaceOptions, all.Mounts)
	}

	const pods = `{securityContext: {seccompProfile: {type: RuntimeDefault}, appArmorProfile: {type: Unconfined}, seLinuxOptions: {type: pods}},
  containers: [{name: a, securityContext: {allowPrivilegeEscalation: false}}]}`
	got = container(pods, containerInput{}).Linux.SecurityContext
	if !got.NoNewPrivs || got.Seccomp.ProfileType != runtimeapi.SecurityProfile_RuntimeDefault ||
		got.SelinuxOptions.Type != "pods" ||
		got.Apparmor.ProfileType != runtimeapi.SecurityProfile_Unconfined || got.MaskedPaths == nil ||
		got.Capabilities != nil {
		t.Errorf("of the pod: %v", got)
	}

	g.security.SeccompDefault = true
	if got = container(`{}`,
		containerInput{}).Linux.SecurityContext; got.Seccomp.ProfileType != runtimeapi.SecurityProfile_RuntimeDefault ||
		got.Apparmor != nil {
		t.Errorf("with the default profile: %v", got)
	}
	if got = container(`{securityContext: {seccompProfile: {type: Unconfined}}}`,
		containerInput{}).Linux.SecurityContext; got.Seccomp.ProfileType != runtimeapi.SecurityProfile_Unconfined {
		t.Errorf("unconfined on request: %v", got.Seccomp)
	}
}
