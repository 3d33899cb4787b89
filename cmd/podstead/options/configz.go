package options

import "time"

// KubeletConfiguration returns the settings of the daemon in the fields of that document, for
// clients that request /configz of a kubelet. It contains no secrets.
func (o *Options) KubeletConfiguration() map[string]any {
	r, c, g := &o.Remote, &o.Cgroups, &o.Garbage
	joins := o.Cluster.Kubeconfig != ""
	all := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"enableServer": true, "staticPodPath": o.Manifests.Path, "staticPodURL": o.Manifests.RedactedURL(),
		"fileCheckFrequency": o.Manifests.FileCheck.String(), "httpCheckFrequency": o.Manifests.HTTPCheck.String(),
		"address": r.host, "port": r.port, "readOnlyPort": r.readOnlyPort,
		"tlsCertFile": r.CertFile, "tlsPrivateKeyFile": r.KeyFile, "tlsMinVersion": r.minVersion, "tlsCipherSuites": r.ciphers,
		"authentication": map[string]any{
			"x509": map[string]any{"clientCAFile": r.ClientCAFile}, "anonymous": map[string]any{"enabled": false},
			"webhook": map[string]any{"enabled": joins && r.Reviews.Tokens, "cacheTTL": r.Reviews.TokenTTL.String()},
		},
		"rotateCertificates": joins && o.Cluster.Rotate, "serverTLSBootstrap": joins && o.Cluster.RotateServing,
		"enableDebuggingHandlers": r.Debugging, "enableProfilingHandler": r.Profiling,
		"healthzBindAddress": o.healthHost, "healthzPort": o.healthPort,
		"containerRuntimeEndpoint": o.Runtime.Endpoint, "runtimeRequestTimeout": o.Runtime.RequestTimeout.String(),
		"crashLoopBackOff":    map[string]any{"maxContainerRestartPeriod": o.Runtime.RestartCap.String()},
		"podLogsDir":          o.Paths.PodLogs,
		"containerLogMaxSize": g.logMaxSize, "containerLogMaxFiles": g.LogMaxFiles,
		"imageGCHighThresholdPercent": g.ImageHigh, "imageGCLowThresholdPercent": g.ImageLow,
		"imageMinimumGCAge": g.ImageMinAge.String(), "imageMaximumGCAge": g.ImageMaxAge.String(),
		"clusterDNS": o.Network.ClusterDNS, "clusterDomain": o.Network.ClusterDomain, "resolvConf": o.Network.ResolvConf,
		"cgroupRoot": c.Root, "cgroupDriver": c.Driver, "cgroupsPerQOS": true, "podPidsLimit": c.PodPids,
		"cpuCFSQuota": !c.NoCPUQuota, "cpuCFSQuotaPeriod": c.QuotaPeriod.String(), "singleProcessOOMKill": c.SingleProcessOOMKill,
		"enforceNodeAllocatable": c.enforce, "systemReserved": c.systemReserved, "kubeReserved": c.kubeReserved,
		"seccompDefault": o.Policy.SeccompDefault, "allowedUnsafeSysctls": o.Policy.UnsafeSysctls,
		"failSwapOn": false, "failCgroupV1": false, "registerNode": joins && o.Cluster.Register,
	}
	if c := &o.Cluster; c.Kubeconfig != "" {
		all["registerWithTaints"], all["providerID"] = c.Taints, c.ProviderID
		all["nodeStatusUpdateFrequency"], all["nodeStatusReportFrequency"] = c.StatusUpdate.String(), c.StatusReport.String()
		all["nodeLeaseDurationSeconds"] = int(c.Lease / time.Second)
		all["nodeStatusMaxImages"] = c.Images
	}
	if joins {
		all["authorization"] = map[string]any{"mode": r.Reviews.mode, "webhook": map[string]any{
			"cacheAuthorizedTTL": r.Reviews.AllowedTTL.String(), "cacheUnauthorizedTTL": r.Reviews.DeniedTTL.String(),
		}}
	}
	if o.Runtime.ParallelPulls > 0 {
		all["maxParallelImagePulls"] = o.Runtime.ParallelPulls
	}
	for name, v := range all {
		// Like the kubelet, omit what is not set.
		if text, ok := v.(string); ok && text == "" {
			delete(all, name)
		}
	}
	return all
}
