import { integer, named, optional, text } from './setting.ts'

/** Settings for the listener that serves metrics without a token. */
export const metricsSettings = {
  host: named('PLINTH_METRICS_HOST', text('127.0.0.1', 'Address of the listener for metrics')),
  port: named(
    'PLINTH_METRICS_PORT',
    optional(integer(1, 65_535, 9464, 'Port that serves metrics over plain HTTP, without a token')),
  ),
}
