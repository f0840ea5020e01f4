import type { Bench } from '../bench.ts'
import type { Target } from '../http.ts'
import type { Product } from './products.ts'

/** A running peer and its form of the API. */
export interface Peer extends Target {
  /** Returns the path of the page with the products after an id. */
  list: (limit: number, after: number) => string
  /** Returns the peer's form of a request text for one product of the service. */
  translate: (request: string) => string
  /** The status of the response to POST. */
  created: 200 | 201
  stop: () => Promise<void>
}

/** A back end to compare the service with. */
export interface PeerProgram {
  name: string
  title: string
  /** Returns why the peer cannot run here, and what to do about it; null if it can. */
  missing: () => string | null
  /** Starts the peer on a database with these products. */
  start: (bench: Bench, products: Iterable<Product>) => Promise<Peer>
}
