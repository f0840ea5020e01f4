import { onPostgres } from '../support/engines.ts'
import { killSuite } from '../support/kill.ts'

onPostgres(killSuite)
