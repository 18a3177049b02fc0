// Package classes keeps EC2NodeClasses: it finds out what each stands for, writes its status, hash and finalizer, tells the
// provider, and clears up behind a class that is deleted.
//
// In: the objects of the cluster (Objects), a resolver, and whom to tell. Out: status and metadata of the objects, launch
// templates and instance profiles collected. One class that cannot be resolved holds up no other.
//
// It runs where the scaler leads, and only there. It launches and ends no instance, and it deletes no NodeClaim: a class that
// is being deleted waits for the claims that refer to it.
package classes
