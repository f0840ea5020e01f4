import { onPostgres } from '../support/engines.ts'
import { zombieSuite } from '../support/zombie.ts'

onPostgres(zombieSuite)
