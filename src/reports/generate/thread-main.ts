import { lowerPriority } from '../../storage/low-priority.ts'

// The entry point of a report thread. Even loading the modules takes time that requests may need.
lowerPriority()
await import('./report-thread.ts')
