package config

// PodsteadKind is the kind of the document with the settings that a KubeletConfiguration
// cannot have.
const (
	podsteadVersion = "podstead.io/v1alpha1"
	podsteadKind    = "PodsteadConfiguration"
)

// ownField is a field of a PodsteadConfiguration. Its type is that of the flag; one without a flag
// has a usage, and is parsed by ownWithoutFlag.
type ownField struct {
	name, flag string
	usage      string
	// path is set if the value is a path: a relative one is relative to the file.
	path bool
}

// ownFields are the fields of a PodsteadConfiguration.
var ownFields = []ownField{
	{name: "rootDir", flag: "root-dir", path: true},
	{name: "containerLogsDir", flag: "container-logs-dir", path: true},
	{name: "devicePluginDir", flag: "device-plugin-dir", path: true},
	{name: "pluginRegistrationDir", flag: "plugin-registration-dir", path: true},
	{name: localDevicesField, usage: "devices that containers get without a device plugin, by resource name: paths and permissions, or cdiDevices, and podsPerDevice (docs/devices.md)"},
	{name: "apiSocket", flag: "api-socket", path: true},
	{name: "hostnameOverride", flag: "hostname-override"},
	{name: "nodeIP", flag: "node-ip"},
	{name: "nodeLabels", flag: "node-labels"},
	{name: "manifestURLCAFile", flag: "manifest-url-ca-file", path: true},
	{name: "manifestOCI", flag: "manifest-oci"},
	{name: "manifestVerifyKeys", flag: "manifest-verify-key", path: true},
	{name: "manifestValidation", flag: "manifest-validation"},
	{name: "podInfraContainerImage", flag: "pod-infra-container-image"},
	{name: "imageCredentialProviderConfig", flag: "image-credential-provider-config", path: true},
	{name: "imageCredentialProviderBinDir", flag: "image-credential-provider-bin-dir", path: true},
	{name: "registryCAFile", flag: "registry-ca-file", path: true},
	{name: "plainHTTPRegistries", flag: "plain-http-registry"},
	{name: "imageArchivesDir", flag: "image-archives-dir", path: true},
	{name: "cniConfDir", flag: "cni-conf-dir", path: true},
	{name: "podDNS", flag: "pod-dns"},
	{name: "podDNSAddresses", flag: "pod-dns-address"},
	{name: "runtimeClasses", flag: "runtime-classes"},
	{name: "minimumContainerTTLDuration", flag: "minimum-container-ttl-duration"},
	{name: "maximumDeadContainersPerContainer", flag: "maximum-dead-containers-per-container"},
	{name: "maximumDeadContainers", flag: "maximum-dead-containers"},
	{name: "podLogsMaxSize", flag: "pod-logs-max-size"},
	{name: "imageGCPeriod", flag: "image-gc-period"},
	{name: "rollbackAfter", flag: "rollback-after"},
	{name: "imageAutoUpdateInterval", flag: "image-auto-update-interval"},
	{name: "imageAutoUpdateWindows", flag: "image-auto-update-window"},
	{name: "tokenAuthFile", flag: "token-auth-file", path: true},
	{name: "kubeconfig", flag: "kubeconfig", path: true},
	{name: "bootstrapKubeconfig", flag: "bootstrap-kubeconfig", path: true},
	{name: "certDir", flag: "cert-dir", path: true},
	{name: "cloudProvider", flag: "cloud-provider"},
	{name: "logFormat", flag: "log-format"},
	{name: "debug", flag: "debug"},
}

// kubeletFields are the flags whose field is one of a KubeletConfiguration, by its path.
var kubeletFields = map[string]string{
	"pod-manifest-path":                            "staticPodPath",
	"file-check-frequency":                         "fileCheckFrequency",
	"manifest-url":                                 "staticPodURL",
	"manifest-url-header":                          "staticPodURLHeader",
	"http-check-frequency":                         "httpCheckFrequency",
	"container-runtime-endpoint":                   "containerRuntimeEndpoint",
	"runtime-request-timeout":                      "runtimeRequestTimeout",
	"streaming-connection-idle-timeout":            "streamingConnectionIdleTimeout",
	"max-container-restart-period":                 "crashLoopBackOff.maxContainerRestartPeriod",
	"cluster-dns":                                  "clusterDNS",
	"cluster-domain":                               "clusterDomain",
	"pod-cidr":                                     "podCIDR",
	"resolv-conf":                                  "resolvConf",
	"cgroup-root":                                  "cgroupRoot",
	"cgroup-driver":                                "cgroupDriver",
	"system-reserved":                              "systemReserved",
	"kube-reserved":                                "kubeReserved",
	"enforce-node-allocatable":                     "enforceNodeAllocatable",
	"system-reserved-cgroup":                       "systemReservedCgroup",
	"kube-reserved-cgroup":                         "kubeReservedCgroup",
	"pod-max-pids":                                 "podPidsLimit",
	"cpu-cfs-quota":                                "cpuCFSQuota",
	"cpu-manager-policy":                           "cpuManagerPolicy",
	"cpu-manager-policy-options":                   "cpuManagerPolicyOptions",
	"reserved-cpus":                                "reservedSystemCPUs",
	"memory-manager-policy":                        "memoryManagerPolicy",
	"reserved-memory":                              "reservedMemory",
	"topology-manager-policy":                      "topologyManagerPolicy",
	"topology-manager-scope":                       "topologyManagerScope",
	"topology-manager-policy-options":              "topologyManagerPolicyOptions",
	"cpu-cfs-quota-period":                         "cpuCFSQuotaPeriod",
	"pod-logs-dir":                                 "podLogsDir",
	"healthz-bind-address":                         "healthzBindAddress",
	"healthz-port":                                 "healthzPort",
	"port":                                         "port",
	"address":                                      "address",
	"tls-cert-file":                                "tlsCertFile",
	"tls-private-key-file":                         "tlsPrivateKeyFile",
	"client-ca-file":                               "authentication.x509.clientCAFile",
	"authentication-token-webhook":                 "authentication.webhook.enabled",
	"authentication-token-webhook-cache-ttl":       "authentication.webhook.cacheTTL",
	"authorization-mode":                           "authorization.mode",
	"authorization-webhook-cache-authorized-ttl":   "authorization.webhook.cacheAuthorizedTTL",
	"authorization-webhook-cache-unauthorized-ttl": "authorization.webhook.cacheUnauthorizedTTL",
	"tls-min-version":                              "tlsMinVersion",
	"tls-cipher-suites":                            "tlsCipherSuites",
	"enable-debugging-handlers":                    "enableDebuggingHandlers",
	"profiling":                                    "enableProfilingHandler",
	"read-only-port":                               "readOnlyPort",
	"max-pods":                                     "maxPods",
	"pods-per-core":                                "podsPerCore",
	"seccomp-default":                              "seccompDefault",
	"allowed-unsafe-sysctls":                       "allowedUnsafeSysctls",
	"container-log-max-size":                       "containerLogMaxSize",
	"container-log-max-files":                      "containerLogMaxFiles",
	"image-gc-high-threshold":                      "imageGCHighThresholdPercent",
	"image-gc-low-threshold":                       "imageGCLowThresholdPercent",
	"minimum-image-ttl-duration":                   "imageMinimumGCAge",
	"maximum-image-ttl-duration":                   "imageMaximumGCAge",
	"volume-stats-agg-period":                      "volumeStatsAggPeriod",
	"shutdown-grace-period":                        "shutdownGracePeriod",
	"shutdown-grace-period-critical-pods":          "shutdownGracePeriodCriticalPods",
	"shutdown-grace-period-by-pod-priority":        "shutdownGracePeriodByPodPriority",
	"rotate-certificates":                          "rotateCertificates",
	"rotate-server-certificates":                   "serverTLSBootstrap",
	"register-node":                                "registerNode",
	"register-with-taints":                         "registerWithTaints",
	"provider-id":                                  "providerID",
	"kube-api-qps":                                 "kubeAPIQPS",
	"kube-api-burst":                               "kubeAPIBurst",
	"event-qps":                                    "eventRecordQPS",
	"event-burst":                                  "eventBurst",
	"eviction-hard":                                "evictionHard",
	"eviction-soft":                                "evictionSoft",
	"eviction-soft-grace-period":                   "evictionSoftGracePeriod",
	"eviction-minimum-reclaim":                     "evictionMinimumReclaim",
	"eviction-pressure-transition-period":          "evictionPressureTransitionPeriod",
	"eviction-max-pod-grace-period":                "evictionMaxPodGracePeriod",
}

// withoutField are the flags without a field, and why.
var withoutField = map[string]string{
	"config":     "names the file",
	"config-dir": "names the drop-in files",
	"runonce":    "is about one run: in a file it would end every start of the service",
}
