import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'

/**
 * Starts processes that use all available CPU time, and returns a function that stops them. They exit after two minutes
 * at the latest.
 */
export function busyNeighbours(perProcessor: number): () => void {
  const loop = 'const end = Date.now() + 120_000; while (Date.now() < end);'
  const many = perProcessor * availableParallelism()
  const children = Array.from({ length: many }, () => spawn(process.execPath, ['-e', loop], { stdio: 'ignore' }))
  return () => {
    for (const child of children) child.kill('SIGKILL')
  }
}
