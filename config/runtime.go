package config

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/podstead/podstead/internal/imagepolicy"
)

const (
	defaultRequestTimeout = 2 * time.Minute
	defaultRestartCap     = 5 * time.Minute
	defaultStreamIdle     = 4 * time.Hour
)

func (o *Options) runtimeSettings() []setting {
	r, policy := &o.Runtime, &o.Cluster.Verification
	pulls := func(d RuntimeDefaults) int { return cmp.Or(r.ParallelPulls, d.ParallelPulls) }
	return []setting{
		{flag: "container-runtime-endpoint", field: "containerRuntimeEndpoint", value: text(&r.Endpoint, ""),
			help: "CRI `socket` of the container runtime; if empty, containerd, CRI-O or cri-dockerd is detected, or a " +
				"private containerd is started"},
		{flag: "runtime-request-timeout", field: "runtimeRequestTimeout",
			value: duration(&r.RequestTimeout, defaultRequestTimeout), check: atLeast(&r.RequestTimeout, minCheck, atLeastCheck),
			help: "`timeout` of requests to the container runtime, except image pulls"},
		{flag: "streaming-connection-idle-timeout", field: "streamingConnectionIdleTimeout",
			value: duration(&o.API.StreamIdle, defaultStreamIdle), check: atLeast(&o.API.StreamIdle, 0, "must be 0 or more"),
			help: "idle `timeout` of exec, attach and port-forward sessions; 0 for none"},
		{flag: "max-container-restart-period", field: "crashLoopBackOff.maxContainerRestartPeriod",
			value: duration(&r.RestartCap, defaultRestartCap),
			check: between(&r.RestartCap, time.Second, defaultRestartCap, "must be 1s to 5m"),
			help:  "maximum crash-loop back-off `time` of a container, 1s to 5m"},
		{flag: "pod-infra-container-image", own: "podInfraContainerImage", value: text(&r.PauseImage, ""),
			help: "sandbox `image` of a private containerd (default: containerd's own)"},
		{flag: "image-credential-provider-config", own: "imageCredentialProviderConfig", value: file(&r.Providers, ""),
			help: "CredentialProviderConfig `file`, or a directory of them, of the image credential provider plugins"},
		{flag: "image-credential-provider-bin-dir", own: "imageCredentialProviderBinDir", value: file(&r.ProvidersBin, ""),
			help: "`directory` of the image credential provider plugins"},
		{flag: "registry-ca-file", own: "registryCAFile", value: file(&o.Registries.CAFile, ""),
			help: "PEM `file` of certificate authorities of registries that podstead itself reads from, in addition to the " +
				"system's; image pulls follow the runtime's settings"},
		{flag: "plain-http-registry", own: "plainHTTPRegistries", value: list(&o.Registries.PlainHTTP),
			check: o.Registries.check,
			help: "registry, as `host:port`, that podstead itself reads from without TLS, in addition to those on loopback; " +
				"image pulls follow the runtime's settings; can be repeated"},
		{flag: "image-archives-dir", own: "imageArchivesDir", value: file(&r.Archives, ""),
			help: "`directory` of image archives, which are loaded into the runtime and used before a pull (default: " +
				"image-archives in --root-dir)"},
		{field: "maxParallelImagePulls", value: integer(&r.ParallelPulls, 0, 1, math.MaxInt32),
			shown: func(d RuntimeDefaults) any { return pulls(d) },
			help:  "maximum number of image pulls at once (default 5)"},
		{field: "serializeImagePulls", value: boolean(&r.serialize, false),
			shown: func(d RuntimeDefaults) any { return pulls(d) == 1 },
			help:  "true pulls one image at a time, as maxParallelImagePulls: 1"},
		{
			field: "imagePullCredentialsVerificationPolicy", cluster: true,
			value: choice(&policy.Mode, "", ": %q: must be NeverVerify, NeverVerifyPreloadedImages, "+
				"NeverVerifyAllowlistedImages or AlwaysVerify",
				imagepolicy.NeverVerify, imagepolicy.NeverVerifyPreloaded, imagepolicy.NeverVerifyAllowlisted,
				imagepolicy.AlwaysVerify),
			// Without a cluster every pod may use every image.
			unasked: func() bool { return policy.Mode == imagepolicy.NeverVerify },
			help: "with --kubeconfig, images that a pod of the cluster may use only with credentials of its own: " +
				"NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify (default " +
				"NeverVerifyPreloadedImages)",
			shown: o.inCluster(func() any { return cmp.Or(policy.Mode, imagepolicy.NeverVerifyPreloaded) }),
		},
		{
			field: "preloadedImagesVerificationAllowlist", value: texts(&policy.Allowlist), cluster: true, unasked: always,
			check: func(s *setting) {
				for i, pattern := range policy.Allowlist {
					if err := imagepolicy.CheckPattern(pattern); err != nil {
						s.table.failAt(within{s, fmt.Sprintf("[%d]", i)}, ": %w", err)
					}
				}
			},
			help: "images for NeverVerifyAllowlistedImages, such as registry.example.com/team/app or " +
				"registry.example.com/team/*",
			shown: o.inCluster(func() any {
				if len(policy.Allowlist) == 0 {
					return nil
				}
				return policy.Allowlist
			}),
		},
	}
}

func (r *Runtime) check(t *table) {
	if (r.Providers == "") != (r.ProvidersBin == "") {
		t.fail("%s and %s must be set together", t.at(&r.Providers), t.at(&r.ProvidersBin))
	}
	if !r.serialize {
		return
	}
	if r.ParallelPulls > 1 {
		t.fail("%s: true conflicts with maxParallelImagePulls %d; remove one of them", t.at(&r.serialize), r.ParallelPulls)
	}
	r.ParallelPulls = 1
}
