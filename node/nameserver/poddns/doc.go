// Package poddns gives the pods of this node their name server.
//
// It owns which addresses pods get: those at which the name server listens, to which the firewall leads the
// queries of pods, and which a pod has reached. It reads the pods and Services, publishes their names for the
// process when they change, and sends queries from a pod until one is answered. It never answers a query itself,
// and is never needed for a pod to start: without it pods get the node's name servers.
package poddns
