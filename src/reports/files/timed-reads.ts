import { Readable } from 'node:stream'
import { ResultsUnavailable } from './store.ts'

/**
 * The bytes of a stream with a read timeout: fails with `ResultsUnavailable` when the next chunk takes longer than `ms`.
 * Time during which the consumer does not read is not counted. Destroying it destroys the source.
 */
export function timedReads(source: Readable, ms: number): Readable {
  const chunks = source[Symbol.asyncIterator]()
  return new Readable({
    read() {
      const late = () => this.destroy(new ResultsUnavailable(`The store sent nothing for ${ms} ms`))
      const limit = setTimeout(late, ms)
      chunks
        .next()
        .then(
          ({ value, done }) => this.push(done ? null : value),
          (error) => this.destroy(error),
        )
        .finally(() => clearTimeout(limit))
    },
    destroy(error, done) {
      source.destroy()
      done(error)
    },
  })
}
