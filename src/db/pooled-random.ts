import type { RandomBytes } from './ids.ts'

const poolBytes = 4_096
/** As many as an id takes; secrets are longer, and come from the source itself. */
const mostPooled = 16

/** Random bytes of ids, taken from the source many at a time, since asking it costs more than the bytes do; none is handed out twice. */
export function pooledRandom(source: RandomBytes): RandomBytes {
  let pool: Buffer = Buffer.alloc(0)
  let used = 0
  return (size) => {
    if (size > mostPooled) return source(size)
    if (used + size > pool.length) {
      pool = source(poolBytes)
      used = 0
    }
    used += size
    return pool.subarray(used - size, used)
  }
}
