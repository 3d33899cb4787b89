package config

import (
	"cmp"
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/internal/imagepolicy"
)

// RuntimeDefaults are the settings in force that the runtime or its client decides.
type RuntimeDefaults struct {
	// CgroupDriver is the driver in use; empty if it is not known yet.
	CgroupDriver string
	// ParallelPulls is the number of pulls at once without a setting.
	ParallelPulls int
}

// KubeletConfiguration returns the settings in force in the fields of that document, for
// clients that request /configz of a kubelet. Used as --config, with the same flags, it
// means the same. Secrets are masked; a masked value is an error in a file.
func (o *Options) KubeletConfiguration(from RuntimeDefaults) map[string]any {
	all := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
	kubeletconfig.AddFixed(all)
	for _, group := range []map[string]any{
		o.sourceFields(), o.serverFields(), o.runtimeFields(from.ParallelPulls), o.cgroupFields(from.CgroupDriver), o.cpuFields(), o.Memory.fields(), o.MemoryManager.fields(), o.Topology.fields(), o.evictionFields(), o.shutdownFields(), o.clusterFields(), o.Tracing.fields(),
	} {
		for name, v := range group {
			all[name] = v
		}
	}
	// An empty resolvConf means no file; other empty strings are not set, as at the kubelet.
	for name, v := range all {
		if text, ok := v.(string); ok && text == "" && name != "resolvConf" {
			delete(all, name)
		}
	}
	return all
}

func (o *Options) sourceFields() map[string]any {
	m := &o.Manifests
	fields := map[string]any{
		"staticPodPath": m.Path, "staticPodURL": maskURL(m.URL),
		"fileCheckFrequency": m.FileCheck.String(), "httpCheckFrequency": m.HTTPCheck.String(),
	}
	if len(m.Header) > 0 {
		fields["staticPodURLHeader"] = maskHeader(m.Header)
	}
	return fields
}

// maskURL masks the parts of a URL that may be secret.
func maskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if u.User != nil {
		u.User = url.User(kubeletconfig.Masked)
	}
	if u.RawQuery != "" {
		u.RawQuery = url.QueryEscape(kubeletconfig.Masked)
	}
	return u.String()
}

func maskHeader(h http.Header) map[string][]string {
	masked := map[string][]string{}
	for name := range h {
		masked[name] = []string{kubeletconfig.Masked}
	}
	return masked
}

func (o *Options) serverFields() map[string]any {
	r := &o.Remote
	return map[string]any{
		"address": r.host, "port": r.port, "readOnlyPort": r.readOnlyPort,
		"tlsCertFile": r.CertFile, "tlsPrivateKeyFile": r.KeyFile, "tlsMinVersion": cmp.Or(r.minVersion, "VersionTLS12"), "tlsCipherSuites": r.ciphers,
		"authentication": map[string]any{
			"x509": map[string]any{"clientCAFile": r.ClientCAFile}, "anonymous": map[string]any{"enabled": false},
			"webhook": map[string]any{"enabled": o.joins() && r.Reviews.Tokens, "cacheTTL": r.Reviews.TokenTTL.String()},
		},
		"rotateCertificates": o.Cluster.Rotate, "serverTLSBootstrap": o.Cluster.RotateServing,
		"enableDebuggingHandlers": r.Debugging, "enableProfilingHandler": r.Profiling,
		"healthzBindAddress": o.healthHost, "healthzPort": o.healthPort,
		"streamingConnectionIdleTimeout": o.API.StreamIdle.String(), "volumeStatsAggPeriod": o.Stats.DiskAge.String(),
	}
}

func (o *Options) runtimeFields(defaultPulls int) map[string]any {
	g, pulls := &o.Garbage, cmp.Or(o.Runtime.ParallelPulls, defaultPulls)
	return map[string]any{
		"containerRuntimeEndpoint": o.Runtime.Endpoint, "runtimeRequestTimeout": o.Runtime.RequestTimeout.String(),
		"crashLoopBackOff":      map[string]any{"maxContainerRestartPeriod": o.Runtime.RestartCap.String()},
		"maxParallelImagePulls": pulls, "serializeImagePulls": pulls == 1,
		"podLogsDir":          o.Paths.PodLogs,
		"containerLogMaxSize": g.logMaxSize, "containerLogMaxFiles": g.LogMaxFiles,
		"imageGCHighThresholdPercent": g.ImageHigh, "imageGCLowThresholdPercent": g.ImageLow,
		"imageMinimumGCAge": g.ImageMinAge.String(), "imageMaximumGCAge": g.ImageMaxAge.String(),
		"podCIDR": o.podCIDR, "clusterDNS": o.Network.ClusterDNS, "clusterDomain": o.Network.ClusterDomain, "resolvConf": o.Network.ResolvConf,
		"seccompDefault": o.Policy.SeccompDefault, "allowedUnsafeSysctls": o.Policy.UnsafeSysctls,
		"maxPods": o.Policy.MaxPods, "podsPerCore": o.Policy.PodsPerCore,
	}
}

func (o *Options) cgroupFields(driver string) map[string]any {
	c := &o.Cgroups
	pids := c.PodPids
	if pids == 0 {
		pids = noPidsLimit
	}
	fields := map[string]any{
		// The field is the parent of the cgroup of all pods.
		"cgroupRoot": path.Dir(c.Root), "cgroupDriver": cmp.Or(driver, c.Driver, c.DriverHint), "podPidsLimit": pids,
		"cpuCFSQuota": !c.NoCPUQuota, "cpuCFSQuotaPeriod": c.QuotaPeriod.String(),
		"enforceNodeAllocatable": c.enforce, "systemReserved": notNil(c.systemReserved), "kubeReserved": notNil(c.kubeReserved),
		"failSwapOn": c.failSwapOn != "",
	}
	for name, at := range map[string]string{"systemReservedCgroup": c.SystemCgroup, "kubeReservedCgroup": c.KubeCgroup} {
		if at != "" {
			fields[name] = at
		}
	}
	// An explicit false is an error with cgroup v1.
	if c.SingleProcessOOMKill || c.wholeOOMKill {
		fields["singleProcessOOMKill"] = c.SingleProcessOOMKill
	}
	return fields
}

func (o *Options) cpuFields() map[string]any {
	fields := map[string]any{"cpuManagerPolicy": o.CPUs.Policy}
	if len(o.CPUs.options) > 0 {
		fields["cpuManagerPolicyOptions"] = o.CPUs.options
	}
	if o.CPUs.reserved != "" {
		fields["reservedSystemCPUs"] = o.CPUs.reserved
	}
	return fields
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func (o *Options) evictionFields() map[string]any {
	e := &o.Eviction
	return map[string]any{
		"evictionHard": notNil(e.hard), "evictionSoft": notNil(e.soft), "evictionSoftGracePeriod": notNil(e.softGrace),
		// evictionHard has the defaults that are in force.
		"evictionMinimumReclaim": notNil(e.reclaim), "mergeDefaultEvictionSettings": false,
		"evictionPressureTransitionPeriod": e.Transition.String(), "evictionMaxPodGracePeriod": e.MaxPodGrace,
	}
}

func (o *Options) shutdownFields() map[string]any {
	s := &o.Shutdown
	groups := []map[string]any{}
	for _, g := range s.groups {
		groups = append(groups, map[string]any{"priority": g.Priority, "shutdownGracePeriodSeconds": int(g.Period / time.Second)})
	}
	total, critical := s.total, s.critical
	if len(groups) > 0 {
		total, critical = 0, 0 // the groups apply instead
	}
	return map[string]any{
		"shutdownGracePeriod": total.String(), "shutdownGracePeriodCriticalPods": critical.String(), "shutdownGracePeriodByPodPriority": groups,
	}
}

// joins reports whether the node joins a cluster. Without one, settings of the cluster are
// not in force.
func (o *Options) joins() bool { return o.Cluster.Kubeconfig != "" }

func (o *Options) clusterFields() map[string]any {
	c, reviews := &o.Cluster, &o.Remote.Reviews
	if !o.joins() {
		return map[string]any{"registerNode": false}
	}
	fields := map[string]any{
		"imagePullCredentialsVerificationPolicy": cmp.Or(c.Verification.Mode, imagepolicy.NeverVerifyPreloaded),

		"registerNode": c.Register, "registerWithTaints": c.Taints, "providerID": c.ProviderID,
		"nodeStatusUpdateFrequency": c.StatusUpdate.String(), "nodeStatusReportFrequency": c.StatusReport.String(),
		"nodeLeaseDurationSeconds": int(c.Lease / time.Second), "nodeStatusMaxImages": c.Images,
		"kubeAPIQPS": c.Rates.APIQPS, "kubeAPIBurst": c.Rates.APIBurst, "eventRecordQPS": c.Rates.EventQPS, "eventBurst": c.Rates.EventBurst,
		"authorization": map[string]any{"mode": reviews.mode, "webhook": map[string]any{
			"cacheAuthorizedTTL": reviews.AllowedTTL.String(), "cacheUnauthorizedTTL": reviews.DeniedTTL.String(),
		}},
	}
	if len(c.Verification.Allowlist) > 0 {
		fields["preloadedImagesVerificationAllowlist"] = c.Verification.Allowlist
	}
	return fields
}
